"""Operators and sensors of Airflow for gscd: slices of rows as business days of a Delta table."""

from gscd_airflow.operators import GscdCheckOperator, GscdLoadOperator
from gscd_airflow.sensors import GscdSealedSensor

__all__ = ["GscdCheckOperator", "GscdLoadOperator", "GscdSealedSensor"]

"""The names of Airflow that moved between 2 and 3, from where they are."""

try:  # Airflow 3
    from airflow.sdk import BaseOperator, BaseSensorOperator
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
except ImportError:  # Airflow 2
    from airflow.exceptions import AirflowException, AirflowFailException
    from airflow.models.baseoperator import BaseOperator
    from airflow.sensors.base import BaseSensorOperator

from airflow.triggers.base import BaseTrigger, TriggerEvent

__all__ = ["AirflowException", "AirflowFailException", "BaseOperator", "BaseSensorOperator", "BaseTrigger", "TriggerEvent"]

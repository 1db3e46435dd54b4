package delta

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Table properties that gscd sets or obeys.
const (
	PropertyDeletedFileRetention = "delta.deletedFileRetentionDuration"
	PropertyLogRetention         = "delta.logRetentionDuration"
	PropertyExpiredLogCleanup    = "delta.enableExpiredLogCleanup"
	PropertyDeletionVectors      = "delta.enableDeletionVectors"
	PropertyChangeDataFeed       = "delta.enableChangeDataFeed"
	PropertyAppendOnly           = "delta.appendOnly"
	PropertyTxnRetention         = "delta.setTransactionRetentionDuration"
	// PropertyCheckpointPolicy is "classic" (default) or "v2".
	PropertyCheckpointPolicy = "delta.checkpointPolicy"
	PropertyIsolationLevel   = "delta.isolationLevel"
	PropertyColumnMapping    = "delta.columnMapping.mode"
	PropertyMaxColumnID      = "delta.columnMapping.maxColumnId"
	PropertyTypeWidening     = "delta.enableTypeWidening"
)

// defaultFileRetention is the protocol's default of PropertyDeletedFileRetention.
const defaultFileRetention = 7 * 24 * time.Hour

// ProtectiveProperties keeps VACUUM and log cleanup of other engines away from
// old versions for so many days. Set all three in one commit: Spark refuses the
// first without the second.
func ProtectiveProperties(days int) map[string]string {
	interval := fmt.Sprintf("interval %d days", days)
	return map[string]string{
		PropertyDeletedFileRetention: interval,
		PropertyLogRetention:         interval,
		PropertyExpiredLogCleanup:    "false",
	}
}

var intervalUnits = map[string]time.Duration{
	"microsecond": time.Microsecond, "millisecond": time.Millisecond, "second": time.Second,
	"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour,
}

// ParseInterval reads an interval of a table property: "interval 30 days",
// "interval 1 week 12 hours". Months and years have no fixed length and are
// refused, as Spark does. What is longer than 292 years is that long.
func ParseInterval(s string) (time.Duration, error) {
	words := strings.Fields(strings.ToLower(s))
	if len(words) > 0 && words[0] == "interval" {
		words = words[1:]
	}
	if len(words) == 0 || len(words)%2 != 0 {
		return 0, fmt.Errorf("not an interval: %q; write it like \"interval 30 days\"", s)
	}
	total := time.Duration(0)
	for i := 0; i < len(words); i += 2 {
		n, err := strconv.ParseInt(words[i], 10, 64)
		unit, ok := intervalUnits[strings.TrimSuffix(words[i+1], "s")]
		if err != nil || !ok || n < 0 {
			return 0, fmt.Errorf("not an interval: %q; write it like \"interval 30 days\"", s)
		}
		if n > 0 && time.Duration(n) > (math.MaxInt64-total)/unit {
			return math.MaxInt64, nil
		}
		total += time.Duration(n) * unit
	}
	return total, nil
}

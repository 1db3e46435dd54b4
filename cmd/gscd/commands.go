package main

import "github.com/spf13/cobra"

// The groups of the help page.
const (
	groupMain     = "main"
	groupReading  = "reading"
	groupChanging = "changing"
	groupChecking = "checking"
)

var groups = []*cobra.Group{
	{ID: groupMain, Title: "Main job:"},
	{ID: groupReading, Title: "Reading:"},
	{ID: groupChanging, Title: "Changing:"},
	{ID: groupChecking, Title: "Checking:"},
}

// newCommand makes a command of its own file. It is called once a process.
type newCommand func(*app) *cobra.Command

// commands are all commands, in the order of the help page.
var commands = []newCommand{
	newDemoCommand,
	newIngestCommand,
	newCaptureCommand,
	newRecordCommand,
	newNotifyCommand,
	newStatusCommand,
	newSnapshotsCommand,
	newWaitCommand,
	newQueryCommand,
	newShellCommand,
	newDescribeCommand,
	newViewsCommand,
	newDiffCommand,
	newHistoryCommand,
	newBlameCommand,
	newChangesCommand,
	newReportCommand,
	newSCD2Command,
	newRollbackCommand,
	newSealCommand,
	newAdoptCommand,
	newLoadCommand,
	newOffsetsCommand,
	newSavepointCommand,
	newOptimizeCommand,
	newWidenCommand,
	newMaintainCommand,
	newVacuumCommand,
	newExportCommand,
	newConvertCommand,
	newDeadLetterCommand,
	newCheckCommand,
	newVerifyCommand,
	newBenchCommand,
	newConfigCommand,
	newVersionCommand,
	newCompletionCommand,
}

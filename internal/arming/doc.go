// Package arming decides whether an agent may act. The inputs are the disarm file on the node, the
// settings in the cluster for all nodes and for this one, and the flag that the agent was started
// with.
//
// Duties and invariants:
//
//   - The package is pure: other packages read the settings, check the file and run the doctor.
//     They also implement the disarmed state.
//   - Settings that disarm take precedence over those that arm, whatever their source. No
//     additional setting makes an agent act, except [Arm] itself.
//   - An unrecognised setting, or an unknown finding, is no permission.
//   - An explicit [Arm] never permits less than no setting: where the flag lets an agent act, the
//     doctor cannot revoke that.
package arming

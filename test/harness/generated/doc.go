// Package generated compares generated files, and the generated parts of documents, with what the program would
// write.
//
// Duties and invariants:
//
//   - What lies outside of the marks of a part is never changed.
//   - A document without the marks of a part fails the test, also when it is to be written.
package generated

// Package reflector keeps a store up to date with one kind of object of an API
// server: it lists, watches, and begins anew until it is told to end.
//
// Duties and invariants:
//
//   - A store is changed only by what an API server says. What merely decodes as
//     a list, such as a page of a proxy, replaces nothing.
//   - No request waits without end. A server that accepts connections and answers
//     nothing is given up, and asked again after a pause.
//   - Nothing is logged here: whoever follows is told how each list and each opened
//     watch went, and knows what that means.
//   - No second copy of an object is kept, and a complete list is handed to the
//     store in one step.
//   - A list is read object by object, in protobuf or JSON: its size costs no memory
//     beyond what the store's transformer keeps, also where the server does not page
//     it, as those do that answer from their cache.
package reflector

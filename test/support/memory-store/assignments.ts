import type { Assignment, AssignmentStore } from '../../../src/limits/assignments/store.ts'
import { addAudit } from './audit.ts'
import type { Connection, Memory } from './memory.ts'
import { changedConcurrently } from './table.ts'

/** Guardrail assignments in memory. */
export const createMemoryAssignmentStore = (connection: Connection): AssignmentStore => ({
  all: () =>
    connection.read(({ assignments }) => [...assignments.key.all(), ...assignments.member.all()]),
  assign: (assignments, entry) =>
    connection.write(memory => {
      for (const one of assignments) assign(memory, one)
      addAudit(memory, entry)
    }),
  unassign: (assignments, entry) =>
    connection.write(memory => {
      for (const { kind, id } of assignments) memory.assignments[kind].remove(id)
      addAudit(memory, entry)
    }),
})

function assign({ assignments, guardrails, keys }: Memory, assignment: Assignment): void {
  const { id, kind, assignee, guardrail_id } = assignment
  const table = assignments[kind]
  for (const before of table.all(one => one.assignee === assignee)) table.remove(before.id)
  if (!guardrails.has(guardrail_id)) throw changedConcurrently()
  if (kind === 'key' && !keys.has(assignee)) throw changedConcurrently()
  table.insert(id, assignment)
}

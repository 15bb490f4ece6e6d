import type { GuardrailStore } from '../../../src/limits/guardrails/store.ts'
import { addAudit } from './audit.ts'
import { mustBeLive } from './checks.ts'
import type { Connection, Memory } from './memory.ts'
import { changedConcurrently } from './table.ts'

/** Guardrails in memory. */
export const createMemoryGuardrailStore = (connection: Connection): GuardrailStore => ({
  all: () => connection.read(({ guardrails }) => guardrails.all()),
  insert: (guardrail, entry) =>
    connection.write(memory => {
      mustBeLive(memory, guardrail.workspace_id)
      memory.guardrails.insert(guardrail.id, guardrail)
      addAudit(memory, entry)
    }),
  replace: (guardrail, entry) =>
    connection.write(memory => {
      const now = memory.guardrails.get(guardrail.id)
      addAudit(memory, entry)
      if (now?.revision !== guardrail.revision - 1) throw changedConcurrently()
      memory.guardrails.update(guardrail.id, guardrail)
    }),
  remove: (id, entry) =>
    connection.write(memory => {
      removeGuardrail(memory, id)
      addAudit(memory, entry)
    }),
})

/** Removes a guardrail and its assignments. */
export function removeGuardrail({ guardrails, assignments }: Memory, id: string): void {
  for (const table of [assignments.key, assignments.member])
    for (const one of table.all(({ guardrail_id }) => guardrail_id === id)) table.remove(one.id)
  guardrails.remove(id)
}

import type { Store } from '../../src/core/store/store.ts'
import { assignmentStore } from './memory-store/assignments.ts'
import { auditStore } from './memory-store/audit.ts'
import { budgetStore } from './memory-store/budgets.ts'
import { byokStore } from './memory-store/byok.ts'
import { creditStore } from './memory-store/credits.ts'
import { generationStore } from './memory-store/generations.ts'
import { guardrailStore } from './memory-store/guardrails.ts'
import { keyStore } from './memory-store/keys.ts'
import { ledgerStore } from './memory-store/ledger.ts'
import { memberStore } from './memory-store/members.ts'
import { Connection, Memory } from './memory-store/memory.ts'
import { outboxStore } from './memory-store/outbox.ts'
import { ownerStore } from './memory-store/owner.ts'
import { presetStore } from './memory-store/presets.ts'
import { scimStore } from './memory-store/scim.ts'
import { workspaceStore } from './memory-store/workspaces.ts'

export { Memory }

/**
 * Opens a store in plain Maps, without SQL, to show that other stores are possible. Each of its
 * methods takes some turns of the event loop before and after its work; the seed determines how
 * many. Several can be opened on one memory, like processes on one database.
 */
export function openMemoryStore({ memory = new Memory(), seed = 1 } = {}): Store {
  const connection = new Connection(memory, seed)
  return {
    keys: keyStore(connection),
    byok: byokStore(connection),
    workspaces: workspaceStore(connection),
    members: memberStore(connection),
    scim: scimStore(connection),
    budgets: budgetStore(connection),
    presets: presetStore(connection),
    audit: auditStore(connection),
    credits: creditStore(connection),
    guardrails: guardrailStore(connection),
    assignments: assignmentStore(connection),
    ledger: ledgerStore(connection),
    generations: generationStore(connection),
    outbox: outboxStore(connection),
    owner: ownerStore(connection),
    version: () => connection.version(),
    close: () => connection.close(),
  }
}

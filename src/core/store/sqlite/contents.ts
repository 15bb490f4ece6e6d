import type { Database } from 'bun:sqlite'
import type { Kysely } from 'kysely'
import { assignmentStore } from './assignments.ts'
import { auditStore } from './audit.ts'
import { budgetStore } from './budgets.ts'
import { byokStore } from './byok.ts'
import { creditStore } from './credits.ts'
import { generationStore } from './generations.ts'
import { guardrailStore } from './guardrails.ts'
import { keyStore } from './keys.ts'
import { ledgerStore } from './ledger.ts'
import { memberStore } from './members.ts'
import first from './migrations/001-first.sql' with { type: 'text' }
import presets from './migrations/002-presets.sql' with { type: 'text' }
import byok from './migrations/003-byok.sql' with { type: 'text' }
import audit from './migrations/004-audit.sql' with { type: 'text' }
import workspaces from './migrations/005-workspaces.sql' with { type: 'text' }
import guardrails from './migrations/006-guardrails.sql' with { type: 'text' }
import scim from './migrations/007-scim.sql' with { type: 'text' }
import contentFilters from './migrations/008-content-filters.sql' with { type: 'text' }
import ledger from './migrations/009-ledger.sql' with { type: 'text' }
import credits from './migrations/010-credits.sql' with { type: 'text' }
import routing from './migrations/011-routing.sql' with { type: 'text' }
import outboxAndSteps from './migrations/012-outbox-steps.sql' with { type: 'text' }
import { outboxStore } from './outbox.ts'
import { presetStore } from './presets.ts'
import { scimStore } from './scim.ts'
import type { Tables } from './tables.ts'
import { workspaceStore } from './workspaces.ts'
import type { Write } from './write.ts'

/** Opens the store of every noun over one database. */
export const openStores = (db: Database, kysely: Kysely<Tables>, write: Write) => ({
  keys: keyStore(kysely, write),
  byok: byokStore(kysely, write),
  workspaces: workspaceStore(kysely, write),
  members: memberStore(kysely, write),
  scim: scimStore(kysely, write),
  budgets: budgetStore(kysely, write),
  presets: presetStore(kysely, write),
  audit: auditStore(kysely),
  credits: creditStore(kysely, write),
  guardrails: guardrailStore(kysely, write),
  assignments: assignmentStore(kysely, write),
  ledger: ledgerStore(kysely, db),
  generations: generationStore(kysely, db),
  outbox: outboxStore(kysely, write),
})

/**
 * Every migration, in order. A released migration never changes. A database's version is the
 * number of migrations that have been applied.
 */
export const MIGRATIONS: string[] = [
  first, //
  presets,
  byok,
  audit,
  workspaces,
  guardrails,
  scim,
  contentFilters,
  ledger,
  credits,
  routing,
  outboxAndSteps,
]

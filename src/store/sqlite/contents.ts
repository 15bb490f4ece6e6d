import type { Database } from 'bun:sqlite'
import type { Kysely } from 'kysely'
import type { RecordSecrets } from '../../limits/seals.ts'
import type { FreshCalls } from '../../observability/rollups/slice.ts'
import { createAlertStore } from './alerts.ts'
import { createAssignmentStore } from './assignments.ts'
import { createAuditStore } from './audit.ts'
import { createAuthCodeStore } from './auth-codes.ts'
import { createBatchStore } from './batches.ts'
import { createBudgetStore } from './budgets.ts'
import { createByokStore } from './byok.ts'
import { createContainerStore } from './containers.ts'
import { createCreditStore } from './credits.ts'
import { createDeliveryStore } from './deliveries.ts'
import { createDestinationStore } from './destinations.ts'
import { createEraser } from './erasing.ts'
import { createEvictionStore } from './evictions.ts'
import { createFeedbackStore } from './feedback.ts'
import { createFileStore } from './files.ts'
import type { Recording } from './generations/recording.ts'
import { createGenerationStore } from './generations.ts'
import { createGuardrailStore } from './guardrails.ts'
import { createIdempotencyStore } from './idempotency.ts'
import { createInspector } from './inspection.ts'
import { createKeyStore } from './keys.ts'
import { createLedgerStore, createLedgerWriter } from './ledger.ts'
import { createMcpLoginStore } from './mcp-logins.ts'
import { createMemberStore } from './members.ts'
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
import seals from './migrations/013-seals.sql' with { type: 'text' }
import sealedScim from './migrations/014-sealed-scim.sql' with { type: 'text' }
import generationLists from './migrations/015-generation-lists.sql' with { type: 'text' }
import keyRotation from './migrations/016-key-rotation.sql' with { type: 'text' }
import refusalCounts from './migrations/017-refusal-counts.sql' with { type: 'text' }
import steps from './migrations/018-steps.sql' with { type: 'text' }
import files from './migrations/019-files.sql' with { type: 'text' }
import rollups from './migrations/020-rollups.sql' with { type: 'text' }
import transcripts from './migrations/021-transcripts.sql' with { type: 'text' }
import auth from './migrations/022-auth.sql' with { type: 'text' }
import responseCache from './migrations/023-response-cache.sql' with { type: 'text' }
import idempotency from './migrations/024-idempotency.sql' with { type: 'text' }
import destinations from './migrations/025-destinations.sql' with { type: 'text' }
import containers from './migrations/026-containers.sql' with { type: 'text' }
import batches from './migrations/027-batches.sql' with { type: 'text' }
import videos from './migrations/028-videos.sql' with { type: 'text' }
import videoCallbacks from './migrations/029-video-callbacks.sql' with { type: 'text' }
import leanDeliveries from './migrations/030-deliveries.sql' with { type: 'text' }
import recordSeals from './migrations/031-record-seals.sql' with { type: 'text' }
import bundles from './migrations/032-bundles.sql' with { type: 'text' }
import chargesOnce from './migrations/033-charges-once.sql' with { type: 'text' }
import spool from './migrations/034-spool.sql' with { type: 'text' }
import digests from './migrations/035-digests.sql' with { type: 'text' }
import corrections from './migrations/036-corrections.sql' with { type: 'text' }
import expiry from './migrations/037-expiry.sql' with { type: 'text' }
import emptyFiles from './migrations/038-empty-files.sql' with { type: 'text' }
import responses from './migrations/039-responses.sql' with { type: 'text' }
import log from './migrations/040-log.sql' with { type: 'text' }
import mcpRules from './migrations/041-mcp-rules.sql' with { type: 'text' }
import alerts from './migrations/043-alerts.sql' with { type: 'text' }
import rates from './migrations/044-rates.sql' with { type: 'text' }
import softBudgets from './migrations/045-soft-budgets.sql' with { type: 'text' }
import mcpLogins from './migrations/046-mcp-logins.sql' with { type: 'text' }
import consoleSessions from './migrations/047-console-sessions.sql' with { type: 'text' }
import callBudgets from './migrations/048-call-budgets.sql' with { type: 'text' }
import feedbackOfUsers from './migrations/050-feedback-of-users.sql' with { type: 'text' }
import type { Messages } from './outbox/messages.ts'
import { createOutboxStore } from './outbox.ts'
import { createPresetStore } from './presets.ts'
import { createRefusalStore } from './refusals.ts'
import { createResponseStore } from './responses.ts'
import { createRollupStore } from './rollups.ts'
import schema from './schema.sql' with { type: 'text' }
import { createScimStore } from './scim.ts'
import { createSealStore, type Sealing } from './seals.ts'
import { createSignInStore } from './sign-ins.ts'
import type { Tables } from './tables.ts'
import { createTranscriptStore } from './transcripts.ts'
import { createVideoStore } from './videos.ts'
import { createWorkspaceStore } from './workspaces.ts'
import type { Writers } from './write.ts'
import type { LogCopier } from './write-log/copier.ts'
import { createWriteLogStore } from './write-log.ts'

/** An open database: how it is read, written and sealed. */
interface OpenDatabase extends Writers {
  db: Database
  kysely: Kysely<Tables>
  sealing: Sealing
  secrets: RecordSecrets
  /** Calls that were recorded lately, which `recording` notes. */
  fresh: FreshCalls
  recording: Recording
  /** Copies the log beside the calls. Null in memory, and where a command has the database. */
  copier: LogCopier | null
  messages: Messages
}

/** Opens the store of every noun over one database. */
export const openStores = (
  {
    db,
    kysely,
    write,
    writeDurably,
    writeFreeing,
    sealing,
    secrets,
    fresh,
    recording,
    messages,
    copier,
    keepReserve,
  }: OpenDatabase,
  erase = createEraser(db, () => messages.sweep()),
) => ({
  keys: createKeyStore(kysely, writeDurably),
  byok: createByokStore(kysely, write),
  workspaces: createWorkspaceStore(kysely, write, erase),
  members: createMemberStore(kysely, write),
  scim: createScimStore(kysely, write),
  budgets: createBudgetStore(kysely, write),
  presets: createPresetStore(kysely, write, secrets.presetSeal),
  audit: createAuditStore(kysely, write),
  credits: createCreditStore(kysely, write, createLedgerWriter(db, secrets.mac)),
  files: createFileStore(kysely, write, writeFreeing),
  batches: createBatchStore(kysely, db, write),
  containers: createContainerStore(kysely, write, writeFreeing),
  guardrails: createGuardrailStore(kysely, write),
  assignments: createAssignmentStore(kysely, write),
  ledger: {
    ...createLedgerStore(kysely, db),
    inspect: createInspector(db, secrets.mac),
  },
  generations: createGenerationStore(kysely, db, recording),
  transcripts: createTranscriptStore(kysely, db, write),
  responses: createResponseStore(kysely, db, write),
  authCodes: createAuthCodeStore(kysely, write),
  signIns: createSignInStore(kysely, write),
  idempotency: createIdempotencyStore(kysely, write),
  feedback: createFeedbackStore(kysely, write),
  evictions: createEvictionStore(kysely, erase),
  outbox: createOutboxStore(kysely, write, messages),
  refusals: createRefusalStore(kysely, db, write),
  rollups: createRollupStore(db, fresh),
  destinations: createDestinationStore(kysely, write, erase),
  alerts: createAlertStore(kysely, write),
  mcpLogins: createMcpLoginStore(kysely, write),
  deliveries: createDeliveryStore(kysely, db, { write, messages, recording }),
  videos: createVideoStore(kysely, write),
  writeLog: createWriteLogStore(db, { copier, keepReserve }),
  seals: createSealStore(kysely, db, { sealing, secrets, messages, schema: SCHEMA }),
})

/** What all migrations lead to, at once: a new database begins here. */
export const SCHEMA: string[] = [schema]

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
  seals,
  sealedScim,
  generationLists,
  keyRotation,
  refusalCounts,
  steps,
  files,
  rollups,
  transcripts,
  auth,
  responseCache,
  idempotency,
  destinations,
  containers,
  batches,
  videos,
  videoCallbacks,
  leanDeliveries,
  recordSeals,
  bundles,
  chargesOnce,
  spool,
  digests,
  corrections,
  expiry,
  emptyFiles,
  responses,
  log,
  mcpRules,
  alerts,
  rates,
  softBudgets,
  mcpLogins,
  consoleSessions,
  callBudgets,
  feedbackOfUsers,
]

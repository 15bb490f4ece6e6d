import type { Kysely } from 'kysely'
import type { RecordSecrets } from '../../limits/seals.ts'
import type { Owner } from '../../resources/workspaces/store.ts'
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
import { createGenerationStore, type Recording } from './generations.ts'
import { createGuardrailStore } from './guardrails.ts'
import { createIdempotencyStore } from './idempotency.ts'
import { createKeyStore } from './keys.ts'
import { createLedgerStore } from './ledger.ts'
import { createMcpLoginStore } from './mcp-logins.ts'
import { createMemberStore } from './members.ts'
import { createOutboxStore, type Messages } from './outbox.ts'
import { createPresetStore } from './presets.ts'
import { createRefusalStore } from './refusals.ts'
import { createResponseStore } from './responses.ts'
import { createScimStore } from './scim.ts'
import { createSignInStore } from './sign-ins.ts'
import type { Tables } from './tables.ts'
import { createTranscriptStore } from './transcripts.ts'
import type { OpenReader } from './turns.ts'
import { createVideoStore } from './videos.ts'
import { createWorkspaceStore } from './workspaces.ts'
import type { Statement, Write, Writers } from './write.ts'

/** What a database engine gives to the nouns: how it is read and written. */
export interface Engine extends Writers {
  kysely: Kysely<Tables>
  openReader: OpenReader
  recording: Recording
  messages: Messages
  /** What keeps others from writing the ledger until a transaction ends. None: it does so itself. */
  lockLedger?: Statement[]
}

/** Opens the stores of those nouns whose SQL is the same on every engine. */
export function openNouns({ kysely, openReader, ...engine }: Engine, secrets: RecordSecrets) {
  const { write, writeDurably, writeFreeing, recording, messages } = engine
  const erase = createEraser(write, () => messages.sweep())
  return {
    keys: createKeyStore(kysely, writeDurably, openReader),
    byok: createByokStore(kysely, write),
    workspaces: createWorkspaceStore(kysely, write, erase),
    members: createMemberStore(kysely, write),
    scim: createScimStore(kysely, write),
    budgets: createBudgetStore(kysely, write),
    presets: createPresetStore(kysely, write, secrets.presetSeal),
    audit: createAuditStore(kysely, write),
    credits: createCreditStore(kysely, write, secrets.mac, engine.lockLedger ?? []),
    files: createFileStore(kysely, write, writeFreeing),
    batches: createBatchStore(kysely, write),
    containers: createContainerStore(kysely, write, writeFreeing),
    guardrails: createGuardrailStore(kysely, write),
    assignments: createAssignmentStore(kysely, write, openReader),
    ledger: createLedgerStore(kysely, write),
    generations: createGenerationStore(kysely, write, recording),
    transcripts: createTranscriptStore(kysely, write),
    responses: createResponseStore(kysely, write),
    authCodes: createAuthCodeStore(kysely, write),
    signIns: createSignInStore(kysely, write),
    idempotency: createIdempotencyStore(kysely, write),
    feedback: createFeedbackStore(kysely, write),
    evictions: createEvictionStore(kysely, erase),
    outbox: createOutboxStore(kysely, write, messages),
    refusals: createRefusalStore(kysely, write),
    destinations: createDestinationStore(kysely, write, erase),
    alerts: createAlertStore(kysely, write),
    mcpLogins: createMcpLoginStore(kysely, write),
    deliveries: createDeliveryStore(kysely, { write, messages, recording }),
    videos: createVideoStore(kysely, write),
  }
}

/** Returns the owner of a store. The candidate becomes the owner if there is none yet. */
export async function claimOwner(
  kysely: Kysely<Tables>,
  write: Write,
  candidate: Owner,
): Promise<Owner> {
  const names = Object.keys(candidate)
  const read = () => kysely.selectFrom('meta').selectAll().where('name', 'in', names).execute()
  let stored = await read()
  if (stored.length < names.length) {
    const rows = Object.entries(candidate).map(([name, value]) => ({ name, value }))
    await write(
      kysely
        .insertInto('meta')
        .values(rows)
        .onConflict(on => on.doNothing()),
    )
    stored = await read()
  }
  return Object.fromEntries(stored.map(row => [row.name, row.value])) as unknown as Owner
}

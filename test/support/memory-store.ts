import type { SealStore } from '../../src/limits/seals.ts'
import type { Store } from '../../src/store/store.ts'
import { createMemoryAlertStore } from './memory-store/alerts.ts'
import { createMemoryAssignmentStore } from './memory-store/assignments.ts'
import { createMemoryAuditStore } from './memory-store/audit.ts'
import { createMemoryAuthCodeStore } from './memory-store/auth-codes.ts'
import { createMemoryBatchStore } from './memory-store/batches.ts'
import { createMemoryBudgetStore } from './memory-store/budgets.ts'
import { createMemoryByokStore } from './memory-store/byok.ts'
import { createMemoryContainerStore } from './memory-store/containers.ts'
import { createMemoryCreditStore } from './memory-store/credits.ts'
import { createMemoryDeliveryStore } from './memory-store/deliveries.ts'
import { createMemoryDestinationStore } from './memory-store/destinations.ts'
import { createMemoryEvictionStore } from './memory-store/evictions.ts'
import { createMemoryFeedbackStore } from './memory-store/feedback.ts'
import { createMemoryFileStore } from './memory-store/files.ts'
import { createMemoryGenerationStore } from './memory-store/generations.ts'
import { createMemoryGuardrailStore } from './memory-store/guardrails.ts'
import { createMemoryIdempotencyStore } from './memory-store/idempotency.ts'
import { createMemoryKeyStore } from './memory-store/keys.ts'
import { createMemoryLedgerStore } from './memory-store/ledger.ts'
import { createMemoryMcpLoginStore } from './memory-store/mcp-logins.ts'
import { createMemoryMemberStore } from './memory-store/members.ts'
import { Connection, Memory } from './memory-store/memory.ts'
import { createMemoryOutboxStore } from './memory-store/outbox.ts'
import { createMemoryOwnerStore } from './memory-store/owner.ts'
import { createMemoryPresetStore } from './memory-store/presets.ts'
import { createMemoryRefusalStore } from './memory-store/refusals.ts'
import { createMemoryResponseStore } from './memory-store/responses.ts'
import { createMemoryRollupStore } from './memory-store/rollups.ts'
import { createMemoryScimStore } from './memory-store/scim.ts'
import { createMemorySignInStore } from './memory-store/sign-ins.ts'
import { createMemoryTranscriptStore } from './memory-store/transcripts.ts'
import { createMemoryVideoStore } from './memory-store/videos.ts'
import { createMemoryWorkspaceStore } from './memory-store/workspaces.ts'

export { Memory }

const READER: Pick<SealStore, 'readOpening' | 'inspect'> = {
  readOpening: async () => ({ sealed_at: '', ledger: { seq: Number.MAX_SAFE_INTEGER, hash: '' } }),
  inspect: async () => ({ schema: [], audit: [], rules: [], seals: [] }),
}

/** Nothing else can reach a Map, so its rows need no seals, and its ledger no key. */
const UNSEALED: SealStore = {
  ...READER,
  readHead: async () => null,
  has: async () => true,
  listUnsealed: async () => [],
  under: () => READER,
  reseal: async () => undefined,
}

/**
 * Opens a store in plain Maps, without SQL, to show that other stores are possible. Each of its
 * methods takes some turns of the event loop before and after its work; the seed determines how
 * many. Several can be opened on one memory, like processes on one database.
 */
export function openMemoryStore({ memory = new Memory(), seed = 1 } = {}): Store {
  const connection = new Connection(memory, seed)
  return {
    keys: createMemoryKeyStore(connection),
    byok: createMemoryByokStore(connection),
    workspaces: createMemoryWorkspaceStore(connection),
    writeLog: { shorten: async () => ({ bytes: 0, isHeld: false }) },
    members: createMemoryMemberStore(connection),
    scim: createMemoryScimStore(connection),
    budgets: createMemoryBudgetStore(connection),
    presets: createMemoryPresetStore(connection),
    audit: createMemoryAuditStore(connection),
    credits: createMemoryCreditStore(connection),
    files: createMemoryFileStore(connection),
    batches: createMemoryBatchStore(connection),
    containers: createMemoryContainerStore(connection),
    guardrails: createMemoryGuardrailStore(connection),
    assignments: createMemoryAssignmentStore(connection),
    ledger: createMemoryLedgerStore(connection),
    generations: createMemoryGenerationStore(connection),
    idempotency: createMemoryIdempotencyStore(connection),
    authCodes: createMemoryAuthCodeStore(connection),
    signIns: createMemorySignInStore(connection),
    transcripts: createMemoryTranscriptStore(connection),
    responses: createMemoryResponseStore(connection),
    feedback: createMemoryFeedbackStore(connection),
    evictions: createMemoryEvictionStore(connection),
    outbox: createMemoryOutboxStore(connection),
    destinations: createMemoryDestinationStore(connection),
    alerts: createMemoryAlertStore(connection),
    mcpLogins: createMemoryMcpLoginStore(connection),
    deliveries: createMemoryDeliveryStore(connection),
    videos: createMemoryVideoStore(connection),
    refusals: createMemoryRefusalStore(connection),
    rollups: createMemoryRollupStore(connection),
    seals: UNSEALED,
    owner: createMemoryOwnerStore(connection),
    version: () => connection.version(),
    close: () => connection.close(),
  }
}

import { yieldToEventLoop } from '../../../src/base/clock.ts'
import type { Batch } from '../../../src/extensions/batches/store.ts'
import type { StoredLogin } from '../../../src/extensions/tools/mcp/logins.ts'
import type { Assignment } from '../../../src/limits/assignments/store.ts'
import type { Budget } from '../../../src/limits/budgets/store.ts'
import type { LedgerRow } from '../../../src/limits/chain.ts'
import type { Guardrail } from '../../../src/limits/guardrails/store.ts'
import type { DaySpend, SubaccountSpend } from '../../../src/limits/ledger.ts'
import type { Credit } from '../../../src/limits/world.ts'
import type { Container, ContainerFile } from '../../../src/network/containers/store.ts'
import type { Alert, Notice } from '../../../src/observability/alerts/store.ts'
import type {
  DeliveryCounts,
  DeliveryRefusal,
} from '../../../src/observability/destinations/deliveries/store.ts'
import type { Destination } from '../../../src/observability/destinations/store.ts'
import type { Feedback } from '../../../src/observability/feedback.ts'
import type {
  BatchResult,
  Generation,
  StoredTranscript,
} from '../../../src/observability/generations/store.ts'
import type { OutboxRow } from '../../../src/observability/outbox.ts'
import type { StoredRefusal } from '../../../src/observability/refusals.ts'
import type { EvictionCount } from '../../../src/observability/retention.ts'
import type { App } from '../../../src/observability/rollups/apps.ts'
import type { AuditEntry } from '../../../src/resources/audit/store.ts'
import type { AuthCode } from '../../../src/resources/auth-codes/store.ts'
import type { ByokKey } from '../../../src/resources/byok/store.ts'
import type { StoredFile } from '../../../src/resources/files/store.ts'
import type { IdempotentAnswer } from '../../../src/resources/idempotency.ts'
import type { Key } from '../../../src/resources/keys/store.ts'
import type { Member, WorkspaceMember } from '../../../src/resources/members/store.ts'
import type { Preset, PresetVersion } from '../../../src/resources/presets/store.ts'
import type { StoredResponse } from '../../../src/resources/responses/store.ts'
import type {
  GroupMapping,
  ScimGroup,
  ScimToken,
  ScimUser,
  SyncJob,
} from '../../../src/resources/scim.ts'
import type { SignIn } from '../../../src/resources/sign-ins.ts'
import type { VideoJob } from '../../../src/resources/videos.ts'
import type { Workspace } from '../../../src/resources/workspaces/store.ts'
import { Table } from './table.ts'

/** Deleted rows stay, because others refer to them. */
type Deletable<Row> = Row & { deleted_at: string | null }

/** The tables of a store. Several connections may be open to it at once. */
export class Memory {
  readonly meta = new Table<{ value: string }>()
  readonly workspaces = new Table<Deletable<Workspace>>()
  readonly keys = new Table<Key>()
  readonly byok = new Table<Deletable<ByokKey>>()
  readonly members = new Table<Member>()
  readonly workspaceMembers = new Table<WorkspaceMember>()
  readonly budgets = new Table<Budget>()
  readonly files = new Table<StoredFile>()
  readonly batches = new Table<Batch>()
  /** By batch and line. */
  readonly batchResults = new Table<BatchResult>()
  readonly containers = new Table<Container>()
  readonly containerFiles = new Table<ContainerFile>()
  readonly presets = new Table<Preset>()
  /** The config is kept as JSON: it may contain numbers that JavaScript would round. */
  readonly presetVersions = new Table<Omit<PresetVersion, 'config'> & { config: string }>()
  readonly guardrails = new Table<Guardrail>()
  readonly assignments = { key: new Table<Assignment>(), member: new Table<Assignment>() }
  readonly audit = new Table<Omit<AuditEntry, 'before' | 'after'> & JsonSides>()
  readonly credits = new Table<Credit>()
  readonly scimTokens = new Table<ScimToken>()
  readonly scimUsers = new Table<ScimUser>()
  readonly scimGroups = new Table<ScimGroup>()
  readonly scimGroupMembers = new Table<{ group_id: string; scim_user_id: string }>()
  readonly scimMappings = new Table<GroupMapping>()
  readonly scimJobs = new Table<SyncJob>()
  readonly generations = new Table<Generation>()
  readonly ledger = new Table<LedgerRow>()
  readonly spend = new Table<DaySpend>()
  readonly callSpend = new Table<SubaccountSpend>()
  readonly outbox = new Table<OutboxRow>()
  readonly idempotency = new Table<IdempotentAnswer>()
  readonly authCodes = new Table<AuthCode>()
  readonly signIns = new Table<SignIn>()
  readonly transcripts = new Table<StoredTranscript>()
  readonly responses = new Table<StoredResponse>()
  readonly responseItems = new Table<{ response_id: string }>()
  readonly feedback = new Table<Feedback>()
  readonly evicted = new Table<Generation>()
  readonly evictions = new Table<EvictionCount>()
  readonly destinations = new Table<Deletable<Destination>>()
  readonly alerts = new Table<Alert>()
  readonly mcpLogins = new Table<StoredLogin>()
  readonly alertNotices = new Table<Notice>()
  readonly deliveries = new Table<QueuedDelivery>()
  readonly failedDeliveries = new Table<QueuedDelivery & DeliveryRefusal>()
  readonly deliveryCounts = new Table<Omit<DeliveryCounts, 'waiting' | 'bytes' | 'failed'>>()
  readonly refusals = new Table<StoredRefusal>()
  /** By their identity. */
  readonly apps = new Table<App>()
  readonly videos = new Table<VideoJob>()
  readonly counters = new Table<{ value: number }>()

  /** The number of transactions that have changed anything. */
  writes = 0

  /** Runs a transaction completely or not at all. Returns whether anything was changed. */
  transact<Result>(work: () => Result): { result: Result; isChanged: boolean } {
    try {
      const result = work()
      const isChanged = this.#end(false)
      if (isChanged) this.writes += 1
      return { result, isChanged }
    } catch (thrown) {
      this.#end(true)
      throw thrown
    }
  }

  #end(isUndone: boolean): boolean {
    const { assignments, writes: _, ...tables } = this
    const all = [...Object.values(tables), assignments.key, assignments.member]
    return all.map(table => table.end(isUndone)).includes(true)
  }
}

interface QueuedDelivery {
  destination_id: string
  sequence: number
  bytes: number
}

interface JsonSides {
  before: string | null
  after: string | null
}

/**
 * One process's connection to a memory. Nothing resolves at once: each method takes some turns of
 * the event loop before it does its work, and some before it resolves. The seed determines how
 * many, so that the second of two calls may be done first.
 */
export class Connection {
  readonly memory: Memory
  #state: number
  #ownWrites = 0
  #isClosed = false

  constructor(memory: Memory, seed: number) {
    this.memory = memory
    this.#state = seed
  }

  /** Reads one snapshot of the memory. */
  async read<Result>(look: (memory: Memory) => Result): Promise<Result> {
    return this.#answer(() => look(this.memory))
  }

  /** Changes the memory in one transaction. */
  async write<Result>(work: (memory: Memory) => Result): Promise<Result> {
    return this.#answer(() => {
      const { result, isChanged } = this.memory.transact(() => work(this.memory))
      if (isChanged) this.#ownWrites += 1
      return result
    })
  }

  /** Returns the number of transactions that other connections have made. */
  version(): Promise<number> {
    return this.read(memory => memory.writes - this.#ownWrites)
  }

  async close(): Promise<void> {
    await this.#pass(1)
    this.#isClosed = true
  }

  async #answer<Result>(work: () => Result): Promise<Result> {
    await this.#pass(1 + this.#chance(3))
    if (this.#isClosed) throw new Error('The store is closed')
    const result = work()
    await this.#pass(this.#chance(3))
    return result
  }

  async #pass(turns: number): Promise<void> {
    for (let i = 0; i < turns; i++) await yieldToEventLoop()
  }

  #chance(below: number): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0
    return (this.#state >>> 16) % below
  }
}

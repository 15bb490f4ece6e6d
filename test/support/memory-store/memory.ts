import type { Batch } from '../../../src/core/batches/store.ts'
import type { ByokKey } from '../../../src/core/catalog/byok/store.ts'
import type { Preset, PresetVersion } from '../../../src/core/catalog/presets/store.ts'
import type { Container, ContainerFile } from '../../../src/core/containers/store.ts'
import type {
  DeliveryCounts,
  DeliveryRefusal,
} from '../../../src/core/destinations/deliveries/store.ts'
import type { Destination } from '../../../src/core/destinations/store.ts'
import type { StoredFile } from '../../../src/core/files/store.ts'
import type { AuditEntry } from '../../../src/core/identity/audit.ts'
import type { AuthCode } from '../../../src/core/identity/auth-codes/store.ts'
import type { IdempotentAnswer } from '../../../src/core/identity/idempotency.ts'
import type { Key } from '../../../src/core/identity/keys/store.ts'
import type { Member, WorkspaceMember } from '../../../src/core/identity/members/store.ts'
import type { GroupMapping } from '../../../src/core/identity/scim/group-mappings.ts'
import type { ScimGroup } from '../../../src/core/identity/scim/groups.ts'
import type { SyncJob } from '../../../src/core/identity/scim/sync-jobs.ts'
import type { ScimToken } from '../../../src/core/identity/scim/tokens.ts'
import type { ScimUser } from '../../../src/core/identity/scim/users/store.ts'
import type { SignIn } from '../../../src/core/identity/sign-ins.ts'
import type { Workspace } from '../../../src/core/identity/workspaces/store.ts'
import type { VideoJob } from '../../../src/core/inference/videos/store.ts'
import { yieldToEventLoop } from '../../../src/core/kernel/clock.ts'
import type { LedgerRow } from '../../../src/core/ledger/chain.ts'
import type { Credit } from '../../../src/core/ledger/credits.ts'
import type { DaySpend } from '../../../src/core/ledger/ledger.ts'
import type { Assignment } from '../../../src/core/policy/assignments/store.ts'
import type { Budget } from '../../../src/core/policy/budgets/store.ts'
import type { Guardrail } from '../../../src/core/policy/guardrails/store.ts'
import type { Feedback } from '../../../src/core/telemetry/feedback.ts'
import type { Generation } from '../../../src/core/telemetry/generations.ts'
import type { OutboxRow } from '../../../src/core/telemetry/outbox.ts'
import type { BatchResult } from '../../../src/core/telemetry/recorder.ts'
import type { StoredRefusal } from '../../../src/core/telemetry/refusals.ts'
import type { EvictionCount } from '../../../src/core/telemetry/retention.ts'
import type { App } from '../../../src/core/telemetry/rollups/apps.ts'
import type { StoredTranscript } from '../../../src/core/telemetry/transcripts.ts'
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
  readonly outbox = new Table<OutboxRow>()
  readonly idempotency = new Table<IdempotentAnswer>()
  readonly authCodes = new Table<AuthCode>()
  readonly signIns = new Table<SignIn>()
  readonly transcripts = new Table<StoredTranscript>()
  readonly feedback = new Table<Feedback>()
  readonly evicted = new Table<Generation>()
  readonly evictions = new Table<EvictionCount>()
  readonly destinations = new Table<Deletable<Destination>>()
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

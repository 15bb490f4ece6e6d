import type { ByokKey } from '../../../src/core/catalog/byok.ts'
import type { Preset, PresetVersion } from '../../../src/core/catalog/presets.ts'
import type { AuditEntry } from '../../../src/core/identity/audit.ts'
import type { Key } from '../../../src/core/identity/keys.ts'
import type { Member, WorkspaceMember } from '../../../src/core/identity/members.ts'
import type { GroupMapping } from '../../../src/core/identity/scim/group-mappings.ts'
import type { ScimGroup } from '../../../src/core/identity/scim/groups.ts'
import type { SyncJob } from '../../../src/core/identity/scim/sync-jobs.ts'
import type { ScimToken } from '../../../src/core/identity/scim/tokens.ts'
import type { ScimUser } from '../../../src/core/identity/scim/users.ts'
import type { Workspace } from '../../../src/core/identity/workspaces.ts'
import { nextTurn } from '../../../src/core/kernel/clock.ts'
import type { LedgerRow } from '../../../src/core/ledger/chain.ts'
import type { Credit } from '../../../src/core/ledger/credits.ts'
import type { DaySpend } from '../../../src/core/ledger/ledger.ts'
import type { Assignment } from '../../../src/core/policy/assignments.ts'
import type { Budget } from '../../../src/core/policy/budgets.ts'
import type { Guardrail } from '../../../src/core/policy/guardrails.ts'
import type { Generation } from '../../../src/core/telemetry/generations.ts'
import type { OutboxRow } from '../../../src/core/telemetry/outbox.ts'
import { Table } from './table.ts'

/** A row stays when it is deleted, for what points to it. */
type Deletable<Row> = Row & { deleted_at: string | null }

/** Everything that a store remembers, in tables. Several connections may be open to it at once. */
export class Memory {
  readonly meta = new Table<{ value: string }>()
  readonly workspaces = new Table<Deletable<Workspace>>()
  readonly keys = new Table<Key>()
  readonly byok = new Table<Deletable<ByokKey>>()
  readonly members = new Table<Member>()
  readonly workspaceMembers = new Table<WorkspaceMember>()
  readonly budgets = new Table<Budget>()
  readonly presets = new Table<Preset>()
  /** The config is kept as JSON: a number in it may be more exact than JavaScript's are. */
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
  readonly counters = new Table<{ value: number }>()

  /** How many transactions have changed anything. */
  writes = 0

  /** Does it whole or not at all, and says whether anything was changed. */
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

interface JsonSides {
  before: string | null
  after: string | null
}

/**
 * One process's way to a memory. Nothing is answered at once: each method takes some turns of the
 * event loop before it does its work, and some before its answer arrives. How many is a matter of
 * the seed, so that what was asked second may be done first.
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

  /** Looks at the memory at one moment. */
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

  /** Counts what others have written. */
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
    for (let i = 0; i < turns; i++) await nextTurn()
  }

  #chance(below: number): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0
    return (this.#state >>> 16) % below
  }
}

import { type Mac, openMac } from '../../base/mac.ts'
import type { Marks } from '../../resources/workloads/used-tokens.ts'

/** How many approvals that were used are remembered, of each workspace. */
const MOST_USED = 10_000

/** The characters of an authentication code in an id: 128 bits. */
const CODE_LENGTH = 32

/** The approvals of one workspace: however many another uses, none of these is forgotten for it. */
interface Tenant {
  /** What stands for it in ids. */
  number: number
  issued: number
  /** The numbers of those that were used. */
  used: Set<number>
  /** All up to this number count as used: too many others were. */
  floor: number
}

/**
 * What clients were asked to approve, and what they approved. A request is in the client's hands
 * alone: its id has the authentication code of what it is about, so that an approval is of nothing
 * else, and is used once. The key is of this process: what was asked before a restart is asked
 * again. Where several servers share a store it is theirs, and what one asks any takes.
 */
export class Approvals {
  #mac: Mac | undefined
  readonly #shared: SharedApprovals | null
  readonly #tenants: Tenant[] = []
  readonly #byWorkspace = new Map<string, Tenant>()

  constructor(shared: SharedApprovals | null = null) {
    this.#shared = shared
  }

  /** Creates the id of a request for the approval of this subject, of a workspace. */
  issue(workspace_id: string, subject: string): string {
    if (this.#shared) return this.#buildId(this.#shared.now(), drawNumber(), subject)
    const tenant = this.#byWorkspace.get(workspace_id) ?? this.#addTenant(workspace_id)
    tenant.issued += 1
    return this.#buildId(tenant.number, tenant.issued, subject)
  }

  /**
   * Tells whether this is the id of a request for this subject, and whether it was used. What other
   * servers have used is known at its use.
   */
  check(id: string, subject: string): 'good' | 'used' | 'unknown' {
    const { of, number } = this.#read(id) ?? {}
    if (of === undefined || number === undefined || this.#buildId(of, number, subject) !== id)
      return 'unknown'
    if (this.#shared) return of > this.#shared.now() - LIFETIME ? 'good' : 'unknown'
    const tenant = this.#tenants[of]
    if (!tenant) return 'unknown'
    return number <= tenant.floor || tenant.used.has(number) ? 'used' : 'good'
  }

  /** Uses an approval that was checked. Returns whether it is the first use. Throws 503. */
  use(id: string): boolean | Promise<boolean> {
    if (this.#shared) return this.#shared.marks.add(MARK + id, LIFETIME + SPARE)
    const { of, number } = this.#read(id) ?? {}
    const tenant = this.#tenants[of ?? -1]
    if (!tenant || number === undefined) return false
    if (number <= tenant.floor || tenant.used.has(number)) return false
    tenant.used.add(number)
    const oldest = tenant.used.values().next().value
    if (tenant.used.size > MOST_USED && oldest !== undefined) {
      tenant.used.delete(oldest)
      tenant.floor = Math.max(tenant.floor, oldest)
    }
    return true
  }

  /** Makes one usable again whose use did not begin. */
  giveBack(id: string): void {
    if (this.#shared) return void this.#shared.marks.remove(MARK + id).catch(() => undefined)
    const { of, number } = this.#read(id) ?? {}
    if (number !== undefined) this.#tenants[of ?? -1]?.used.delete(number)
  }

  #addTenant(workspace_id: string): Tenant {
    const tenant = { number: this.#tenants.length, issued: 0, used: new Set<number>(), floor: 0 }
    this.#tenants.push(tenant)
    this.#byWorkspace.set(workspace_id, tenant)
    return tenant
  }

  #read(id: string): { of: number; number: number } | null {
    const [, of, digits] = ID.exec(id) ?? []
    if (of === undefined || digits === undefined) return null
    return { of: Number.parseInt(of, 36), number: Number.parseInt(digits, 36) }
  }

  #buildId(of: number, number: number, subject: string): string {
    const place = `${of.toString(36)}_${number.toString(36)}`
    this.#mac ??= openMac(this.#shared?.readKey() ?? drawBytes(32), 'approvals')
    const code = this.#mac(`${place} ${subject}`).slice(0, CODE_LENGTH)
    return `mcpr_${place}_${code}`
  }
}

/** What servers of one store share: ids have the time of their request, and a number drawn by lot. */
interface SharedApprovals {
  /** Throws where the secret that it is derived from cannot be read. */
  readKey(): Uint8Array
  marks: Marks
  /** In seconds since 1970. */
  now(): number
}

/** In seconds: how long a request can be approved, and how much longer its use is remembered. */
const LIFETIME = 30 * 86_400
const SPARE = 86_400
const MARK = 'approval '

const drawBytes = (size: number) => Buffer.from(crypto.getRandomValues(new Uint8Array(size)))
const drawNumber = () => drawBytes(6).readUIntBE(0, 6)

const ID = /^mcpr_([0-9a-z]{1,6})_([0-9a-z]{1,10})_[0-9a-f]{32}$/

import { type Mac, openMac } from '../../base/mac.ts'

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
 * again.
 */
export class Approvals {
  readonly #mac: Mac
  readonly #tenants: Tenant[] = []
  readonly #byWorkspace = new Map<string, Tenant>()

  constructor() {
    this.#mac = openMac(crypto.getRandomValues(new Uint8Array(32)), 'approvals')
  }

  /** Creates the id of a request for the approval of this subject, of a workspace. */
  issue(workspace_id: string, subject: string): string {
    const tenant = this.#byWorkspace.get(workspace_id) ?? this.#addTenant(workspace_id)
    tenant.issued += 1
    return this.#buildId(tenant, tenant.issued, subject)
  }

  /** Tells whether this is the id of a request for this subject, and whether it was used. */
  check(id: string, subject: string): 'good' | 'used' | 'unknown' {
    const { tenant, number } = this.#read(id) ?? {}
    if (!tenant || number === undefined || this.#buildId(tenant, number, subject) !== id)
      return 'unknown'
    return number <= tenant.floor || tenant.used.has(number) ? 'used' : 'good'
  }

  /** Uses an approval that was checked. Returns whether it is the first use. */
  use(id: string): boolean {
    const { tenant, number } = this.#read(id) ?? {}
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
    const { tenant, number } = this.#read(id) ?? {}
    if (number !== undefined) tenant?.used.delete(number)
  }

  #addTenant(workspace_id: string): Tenant {
    const tenant = { number: this.#tenants.length, issued: 0, used: new Set<number>(), floor: 0 }
    this.#tenants.push(tenant)
    this.#byWorkspace.set(workspace_id, tenant)
    return tenant
  }

  #read(id: string): { tenant: Tenant; number: number } | null {
    const [, of = '', digits = ''] = ID.exec(id) ?? []
    const tenant = this.#tenants[Number.parseInt(of, 36)]
    return tenant ? { tenant, number: Number.parseInt(digits, 36) } : null
  }

  #buildId(tenant: Tenant, number: number, subject: string): string {
    const place = `${tenant.number.toString(36)}_${number.toString(36)}`
    const code = this.#mac(`${place} ${subject}`).slice(0, CODE_LENGTH)
    return `mcpr_${place}_${code}`
  }
}

const ID = /^mcpr_([0-9a-z]{1,6})_([0-9a-z]{1,10})_[0-9a-f]{32}$/

import { deserialize, serialize } from 'bun:jsc'
import type { Events } from '../base/events.ts'
import { createSeal, SEAL_ROOM, type Seal } from '../base/seal.ts'
import { VERSION } from '../base/version.ts'
import type { Run } from '../engine/run.ts'
import type { Stages } from '../engine/stages.ts'
import type { KeptAnswer, SharedAnswers } from '../engine/traffic/response-cache.ts'
import { findSession, type SharedSessions } from '../engine/traffic.ts'
import type { SharedStore } from '../store/postgres/shared.ts'
import { openPools, POOL_SCRIPTS } from '../store/valkey/pools.ts'
import { describeValkey, Valkey, type ValkeyState } from '../store/valkey.ts'
import type { Finding } from './doctor.ts'
import type { Gateway, Hot, Secrets } from './gateway.ts'
import { hashConfig } from './sharing.ts'

declare module '../base/events.ts' {
  interface EventMap {
    /** The server of storage.valkey is asked again, or no longer. */
    'valkey.changed': ValkeyState
  }
}

/** In milliseconds: a call waits no longer for what it can do without. */
const PATIENCE = 5
/** In bytes: answers that are larger, sealed, stay at their server. */
const LARGEST = 256 * 1024
/** In milliseconds: for how long a silent session is known. */
const LONGEST_SILENCE = 600_000
/** How many sessions, and answers to be forgotten, are remembered. */
const MOST = 10_000

interface HotOptions {
  url: string
  shared: Pick<SharedStore, 'readIdentity'> | undefined
  secrets: Secrets
  events: Events
}

/** Opens Valkey for a server. Resolves whether or not it is there, and throws nothing. */
export async function openHot({ url, shared, secrets, events }: HotOptions): Promise<Hot> {
  const hide = (name: string) => secrets.mac(`valkey ${name}`).slice(0, 32)
  const prefix = await buildPrefix(shared, secrets)
  let onNews = (_: string): void => undefined
  let onOpen = (): void => undefined
  const valkey = await Valkey.open({
    ...{ url, prefix, scripts: POOL_SCRIPTS },
    onNews: news => onNews(news),
    onOpen: () => onOpen(),
    onState: state => events.publish('valkey.changed', state),
  })
  const seal = createSeal(secrets.derive('valkey', 32))
  const sessions = new HotSessions(valkey, seal, hide)
  return {
    get state() {
      return valkey.state
    },
    get asked() {
      return valkey.asked
    },
    pools: openPools(valkey, hide),
    followSessions: stages => ({ ...stages, open: [...stages.open, sessions.stage] }),
    attach(gateway) {
      const { traffic } = gateway
      const answers = new HotAnswers(valkey, gateway, { seal, hide })
      traffic.responseCache.shared = answers
      traffic.sessions.shared = sessions
      onNews = news => answers.hear(news)
      // What was to be forgotten meanwhile was not heard of.
      onOpen = () => {
        traffic.responseCache.trim(0)
        answers.sendPending()
      }
    },
    close: () => valkey.close(),
  }
}

/** Another gateway may use the same server: with another secret, or another database. */
async function buildPrefix(shared: HotOptions['shared'], { mac }: Secrets): Promise<string> {
  const identity = (await shared?.readIdentity().catch(() => '')) ?? ''
  return `gateway:${mac(`valkey of ${identity}`).slice(0, 16)}:`
}

/** Says whether Valkey can be asked: without it servers are slower, and nothing is wrong. */
export async function examineValkey({ config, store, secrets }: Gateway): Promise<Finding> {
  const { url = '' } = config.storage.valkey ?? {}
  const valkey = await Valkey.open({ url, prefix: await buildPrefix(store.shared, secrets) })
  const { isUp, words } = valkey.state
  await valkey.close()
  const found = isUp ? words : `degraded: it ${words}; servers do without it`
  return { check: 'valkey', ok: true, found: `${describeValkey(url)}: ${found}` }
}

/** The endpoints of sessions that callers name, as all servers know them. */
class HotSessions implements SharedSessions {
  readonly #valkey: Valkey
  readonly #seal: Seal
  readonly #hide: (name: string) => string
  /** Those that were asked for or told of here. */
  readonly #known = new Map<string, number>()

  constructor(valkey: Valkey, seal: Seal, hide: (name: string) => string) {
    this.#valkey = valkey
    this.#seal = seal
    this.#hide = hide
  }

  get stage(): Stages['open'][number] {
    return {
      name: 'session',
      when: ({ call }) => call.session_id !== null,
      run: ({ traffic }, run) => this.#find(traffic.sessions, run),
    }
  }

  note(session: string, model: string, id: string): void {
    this.#know(session)
    const key = this.#nameKey(session)
    const nonce = crypto.getRandomValues(new Uint8Array(12))
    const sealed = this.#seal.seal(JSON.stringify([model, id]), key, nonce)
    void this.#valkey.ask(client =>
      Promise.all([
        client.send('HSET', [key, this.#hide(model), sealed]),
        client.send('PEXPIRE', [key, String(LONGEST_SILENCE)]),
      ]),
    )
  }

  #find(
    sessions: { adopt(session: string, model: string, id: string): void },
    run: Run,
  ): Promise<void> | undefined {
    const session = findSession(run.actor, run.kind, run.call)
    if (!session?.isNamed || this.#valkey.run === null) return undefined
    const { key: name } = session
    if ((this.#known.get(name) ?? 0) > performance.now()) return undefined
    const key = this.#nameKey(name)
    return this.#valkey
      .ask(client => client.hvals(key), PATIENCE)
      .then(found => {
        if (!found) return
        this.#know(name)
        for (const sealed of found) {
          const opened = this.#seal.open(sealed, key)
          if (opened === undefined) continue
          const [model, id] = JSON.parse(opened) as [string, string]
          sessions.adopt(name, model, id)
        }
      })
  }

  #know(session: string): void {
    this.#known.delete(session)
    this.#known.set(session, performance.now() + LONGEST_SILENCE)
    const [oldest] = this.#known.keys()
    if (this.#known.size > MOST && oldest !== undefined) this.#known.delete(oldest)
  }

  #nameKey = (session: string): string => `${this.#valkey.prefix}session:${this.#hide(session)}`
}

/** The answers that callers want to get again, as all servers keep them. */
class HotAnswers implements SharedAnswers {
  readonly #valkey: Valkey
  readonly #gateway: Gateway
  readonly #seal: Seal
  readonly #hide: (name: string) => string
  readonly #self = crypto.randomUUID()
  /** What is to be forgotten there, and was not heard of. */
  readonly #pending = new Set<string>()
  #described: { of: Pick<Gateway, 'config' | 'catalog'>; as: string } | null = null

  constructor(
    valkey: Valkey,
    gateway: Gateway,
    { seal, hide }: { seal: Seal; hide: (name: string) => string },
  ) {
    this.#valkey = valkey
    this.#gateway = gateway
    this.#seal = seal
    this.#hide = hide
  }

  async find(name: string): Promise<KeptAnswer | null> {
    const context = this.#describe(name)
    const key = this.#nameKey(context)
    const sealed = await this.#valkey.ask(client => client.getBuffer(key), PATIENCE)
    if (!sealed) return null
    const opened = this.#seal.openBytes(sealed, context)
    if (!opened) return null
    const { config } = this.#gateway
    return { ...(deserialize(opened as never) as Omit<KeptAnswer, 'config'>), config }
  }

  keep(name: string, { config, ...answer }: KeptAnswer): void {
    if (answer.size > LARGEST || config !== this.#gateway.config) return
    const context = this.#describe(name)
    const bytes = new Uint8Array(serialize(answer))
    const sealed = new Uint8Array(SEAL_ROOM + bytes.length)
    if (sealed.length > LARGEST) return
    sealed.set(bytes, SEAL_ROOM)
    const nonce = crypto.getRandomValues(new Uint8Array(12))
    this.#seal.sealInPlace(sealed, context, nonce)
    const milliseconds = answer.expires_at - answer.kept_at
    const key = this.#nameKey(context)
    void this.#valkey.ask(client =>
      client.send('SET', [key, sealed as never, 'PX', String(milliseconds)]),
    )
  }

  forget(name: string): void {
    const key = this.#nameKey(this.#describe(name))
    void this.#valkey
      .ask(client => client.del(key))
      .then(done => {
        if (done === undefined) this.#keepPending(name)
      })
    void this.#valkey.tell(`${this.#self} ${name}`)
  }

  /** Hears what another server has forgotten. */
  hear(news: string): void {
    const [by, name = ''] = news.split(' ')
    if (by === this.#self) return
    this.#gateway.traffic.responseCache.delete(name)
    // Under this one's config it has another name.
    void this.#valkey.ask(client => client.del(this.#nameKey(this.#describe(name))))
  }

  sendPending(): void {
    const names = [...this.#pending]
    this.#pending.clear()
    for (const name of names) this.forget(name)
  }

  #keepPending(name: string): void {
    this.#pending.add(name)
    const [oldest] = this.#pending
    if (this.#pending.size > MOST && oldest !== undefined) this.#pending.delete(oldest)
  }

  /** Answers of another config, or in the form of another version, are others. */
  #describe(name: string): string {
    const { config, catalog } = this.#gateway
    if (this.#described?.of.config !== config || this.#described.of.catalog !== catalog)
      this.#described = { of: { config, catalog }, as: hashConfig(this.#gateway) }
    return `answer ${VERSION} ${this.#described.as} ${name}`
  }

  #nameKey = (context: string): string => `${this.#valkey.prefix}answer:${this.#hide(context)}`
}

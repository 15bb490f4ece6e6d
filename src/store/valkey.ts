import { connect as connectSocket, isIP } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { RedisClient } from 'bun'

/**
 * In milliseconds: a call waits no longer for an answer, and the server is left alone after that. Below
 * the 50 that are promised by what a timer may be late.
 */
const PATIENCE = 45
/** Of these so many are for what has come while this process was busy. */
const GRACE = 10
/** In milliseconds: how long a server that was left is not asked. */
const PAUSE = 500
/** In milliseconds, for each of the steps that open a connection. */
const OPENING = 1_000

/** What a process needs to use Valkey. */
export interface ValkeyOptions {
  url: string
  /** What the keys of this gateway begin with: others may use the server too. */
  prefix: string
  /** The scripts that are run, by name. */
  scripts?: Record<string, string>
  /** Hears what other servers of this gateway tell. */
  onNews?: (news: string) => void
  /** Hears that it can be asked, perhaps after a while in which news was missed. */
  onOpen?: () => void
  /** Hears in which state it is, whenever that has changed. */
  onState?: (state: ValkeyState) => void
}

/** Whether Valkey is asked, and what an operator is told of it. */
export interface ValkeyState {
  isUp: boolean
  words: string
}

/** What was opened together. */
interface Connection {
  client: RedisClient
  listener: RedisClient
  run: string
  digests: Record<string, string>
}

/**
 * A server of Valkey or Redis. Nothing depends on it: one that fails, or does not answer within 50
 * milliseconds, is asked nothing until it is opened anew, which is tried twice a second. So at most
 * one wait of that length is spent on it.
 */
export class Valkey {
  readonly #options: ValkeyOptions
  readonly #news: string
  #connection: Connection | null = null
  #state: ValkeyState = { isUp: false, words: 'was not asked yet' }
  #timer: ReturnType<typeof setTimeout> | undefined
  #isClosed = false
  /** How often it was asked. */
  asked = 0

  private constructor(options: ValkeyOptions) {
    this.#options = options
    this.#news = `${options.prefix}news`
  }

  /** Opens it. Resolves after a few seconds at most, whether or not it is there. */
  static async open(options: ValkeyOptions): Promise<Valkey> {
    const valkey = new Valkey(options)
    await valkey.#open()
    return valkey
  }

  get state(): ValkeyState {
    return this.#state
  }

  get prefix(): string {
    return this.#options.prefix
  }

  /**
   * The run of the server that is asked: another one after each restart, and once another server has
   * taken over. Null while none is asked.
   */
  get run(): string | null {
    return this.#connection?.run ?? null
  }

  /**
   * Asks, and returns undefined where there is no answer, or none within `patience` milliseconds: at
   * most 45. Throws nothing.
   */
  async ask<Answer>(
    use: (client: RedisClient) => Promise<Answer>,
    patience = PATIENCE,
  ): Promise<Answer | undefined> {
    const connection = this.#connection
    if (!connection) return undefined
    this.asked += 1
    let watch = setTimeout(() => {
      watch = setTimeout(() => this.#leave(connection, NO_ANSWER), GRACE)
    }, PATIENCE - GRACE)
    const answer = Promise.try(() => use(connection.client))
      .catch((error: unknown) => {
        // One key that another program has made is no reason.
        if (!/^WRONGTYPE/.test(String((error as Error).message))) this.#leave(connection, error)
        return undefined
      })
      .finally(() => clearTimeout(watch))
    return patience < PATIENCE ? Promise.race([answer, waitOut(patience)]) : answer
  }

  /** Runs a script on keys, which begin with the prefix. As `ask` does. */
  runScript(
    name: string,
    keys: string[],
    values: (string | number)[],
    onRefusal?: () => void,
  ): Promise<unknown> {
    const { digests } = this.#connection ?? { digests: {} as Record<string, string> }
    const sent = [digests[name] ?? '', String(keys.length), ...keys, ...values.map(String)]
    return this.ask(client =>
      client.send('EVALSHA', sent).catch((error: unknown) => {
        if (isRefusal(error)) onRefusal?.()
        throw error
      }),
    )
  }

  /** Tells all servers of this gateway, with this one. */
  async tell(news: string): Promise<void> {
    await this.ask(client => client.publish(this.#news, news))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    if (this.#connection) closeAll(this.#connection)
    this.#connection = null
  }

  async #open(): Promise<void> {
    const { onOpen, onNews } = this.#options
    try {
      const connection = await openConnection(this.#options, this.#news, onNews ?? ignore)
      if (this.#isClosed) return closeAll(connection)
      const { client, listener } = connection
      client.onclose = () => this.#leave(connection, GONE)
      listener.onclose = () => this.#leave(connection, GONE)
      this.#connection = connection
      this.#become({ isUp: true, words: 'answers' })
      onOpen?.()
    } catch (error) {
      this.#become({ isUp: false, words: describe(error) })
      this.#openLater()
    }
  }

  /** Asks it no more until it is opened anew. What is on its way there fails at once. */
  #leave(connection: Connection, reason: unknown): void {
    if (this.#connection !== connection) return
    this.#connection = null
    closeAll(connection)
    if (this.#isClosed) return
    this.#become({ isUp: false, words: describe(reason) })
    this.#openLater()
  }

  #openLater(): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(() => void this.#open(), PAUSE)
    this.#timer.unref()
  }

  #become(state: ValkeyState): void {
    const { isUp, words } = this.#state
    this.#state = state
    if (state.isUp !== isUp || state.words !== words) this.#options.onState?.(state)
  }
}

const ignore = () => undefined

// What has come while this process was busy is read before it is given up.
const waitOut = (milliseconds: number) =>
  new Promise<undefined>(done => {
    setTimeout(() => setTimeout(done, 1), milliseconds - 1)
  })

const NO_ANSWER = new Error('does not answer')
const GONE = new Error('has closed the connection')

function closeAll({ client, listener }: Pick<Connection, 'client' | 'listener'>): void {
  for (const one of [client, listener]) {
    one.onclose = null as never
    one.close()
  }
}

// It is given up at once, and opened by the class above alone: the client itself gives up for ever.
const createClient = (url: string): RedisClient =>
  new RedisClient(url, {
    ...{ enableOfflineQueue: false, autoReconnect: false, connectionTimeout: OPENING },
  })

/** Opens connections, and tries all that will be asked. Throws what the operator is told. */
async function openConnection(
  { url, prefix, scripts = {} }: ValkeyOptions,
  news: string,
  onNews: (news: string) => void,
): Promise<Connection> {
  const opened = { client: createClient(url), listener: createClient(url) }
  const { client, listener } = opened
  try {
    await Promise.all([answerSoon(client.connect()), answerSoon(listener.connect())]).catch(
      async (thrown: unknown) => {
        throw isRefusal(thrown) ? thrown : new Error(await explainSilence(url))
      },
    )
    const run = await answerSoon(readRun(client))
    const digests: Record<string, string> = {}
    for (const [name, script] of Object.entries(scripts))
      digests[name] = String(await answerSoon(client.send('SCRIPT', ['LOAD', script])))
    await answerSoon(listener.subscribe(news, onNews))
    // What takes no changes, or has no room for them, is of no use.
    await answerSoon(client.send('SET', [`${prefix}probe`, run, 'PX', '1000']))
    return { ...opened, run, digests }
  } catch (error) {
    closeAll(opened)
    throw error
  }
}

/** Reads what names the run of a server, and the history of its data. */
async function readRun(client: RedisClient): Promise<string> {
  const server = String(await client.send('INFO', ['server']))
  const replication = String(await client.send('INFO', ['replication']))
  const run = /^run_id:(\w+)/m.exec(server)?.[1]
  if (!run) throw new Error('does not say which run of a server it is (run_id of INFO)')
  return `${run.slice(0, 16)}${/^master_replid:(\w+)/m.exec(replication)?.[1]?.slice(0, 16) ?? ''}`
}

async function answerSoon<Answer>(answer: Promise<Answer>): Promise<Answer> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const overdue = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(NO_ANSWER), OPENING)
  })
  return Promise.race([answer, overdue]).finally(() => clearTimeout(timer))
}

/** Whether the server itself has refused something: then it was not done. */
const isRefusal = (error: unknown): boolean =>
  /SERVER_ERROR|INVALID_COMMAND/.test(String((error as { code?: unknown }).code))

const describe = (error: unknown): string => {
  const { message } = error as Error
  return isRefusal(error) ? `refuses: ${message}` : message
}

/** Names a server of Valkey by its URL, without who opens it. */
export const describeValkey = (url: string): string => {
  const { host, pathname } = new URL(url)
  return host || pathname
}

/**
 * Says why a server cannot be opened, which its client does not tell: what the server says, if it
 * says anything, to who asks it in the oldest words.
 */
function explainSilence(url: string): Promise<string> {
  const { protocol, hostname, port, pathname, username, password } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  const place = protocol.endsWith('+unix:')
    ? { path: decodeURIComponent(pathname) }
    : { host, port: Number(port || 6379) }
  const { promise, resolve } = Promise.withResolvers<string>()
  const socket = /^(rediss|valkeys):$/.test(protocol)
    ? connectTls({ ...place, ...(isIP(host) === 0 ? { servername: host } : {}) })
    : connectSocket(place)
  const end = (words: string) => {
    clearTimeout(timer)
    socket.destroy()
    resolve(words)
  }
  const timer = setTimeout(() => end('does not answer'), OPENING)
  const user = username === '' ? [] : [decodeURIComponent(username)]
  const login = ['AUTH', ...user, decodeURIComponent(password)]
  if (password !== '') socket.write(encode(login))
  socket.write(encode(['PING']))
  socket.on('data', data => {
    const lines = String(data).split('\r\n')
    const refusal = lines.find(line => line.startsWith('-'))
    if (refusal) end(`refuses: ${refusal.slice(1)}`)
    else if (!lines[0]?.startsWith('+')) end('is something else than Valkey or Redis')
    else if (lines.includes('+PONG')) end('is too old: Valkey, or Redis 6 or later, is needed')
  })
  socket.on('error', error => end(explainFault(error)))
  socket.on('close', () => end('closes the connection'))
  return promise
}

const encode = (words: string[]): string =>
  `*${words.length}\r\n${words.map(word => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`

/** What a certificate lacks, in the codes of TLS. */
const UNTRUSTED = /CERT|ISSUER|SIGNATURE|HOSTNAME_MISMATCH|ALTNAME/

function explainFault(error: unknown): string {
  const { code, message } = error as { code?: string; message: string }
  return UNTRUSTED.test(String(code))
    ? `has a certificate that is not trusted (${message}): NODE_EXTRA_CA_CERTS names a file of authorities that are`
    : `cannot be reached (${code ?? message})`
}

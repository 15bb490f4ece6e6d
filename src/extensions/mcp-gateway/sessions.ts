import { unavailable } from '../../base/errors.ts'
import type { Json } from '../../base/json.ts'
import type { Actor } from '../../resources/actor.ts'

/** A client's session: what it was told, so that a tool which has changed since is not called. */
export interface ClientSession {
  id: string
  /** Whose it is. For all others there is no such session. */
  holder: string
  workspace: string
  /** The server of its path; null at `/mcp`. */
  label: string | null
  /** The digests of the tools as they were listed, by the names under which they were. */
  digests: Map<string, string>
  /** Its stream, while one is open. */
  stream: MessageStream | null
  /** Whether the client asks its user what it is asked: elicitation, by a form. */
  canAsk: boolean
  /** What takes the client's answers to what it was asked, by the id of the question. */
  questions: Map<string, (answer: Json) => void>
  /** When it was last used, in steady milliseconds. */
  usedAt: number
}

/** How many sessions there are: more would be clients that never end theirs. */
const MOST_SESSIONS = { key: 100, workspace: 1_000, all: 5_000 }
/** Milliseconds after which a session that nobody uses is forgotten. */
const LONGEST_IDLE = 3_600_000

/** The sessions of clients, in memory: after a restart they begin anew, as the protocol has it. */
export class ClientSessions {
  /** In the order of their last use. */
  readonly #sessions = new Map<string, ClientSession>()
  readonly #most: { key: number; workspace: number; all: number }

  constructor(most = MOST_SESSIONS) {
    this.#most = most
  }

  /**
   * Opens a session. Where there are as many as may be, of its key, its workspace or in all, one of
   * its key makes room for it: nobody ends another's. Throws 503 where its key has none.
   */
  open(
    { id, actor, label, canAsk }: Pick<ClientSession, 'id' | 'label' | 'canAsk'> & { actor: Actor },
    now: number,
  ): ClientSession {
    this.#forgetIdle(now)
    const holder = nameHolder(actor)
    const workspace = actor.workspace_id
    this.#makeRoom(holder, workspace)
    const session: ClientSession = {
      ...{ id, holder, workspace, label, canAsk, digests: new Map(), questions: new Map() },
      ...{ stream: null, usedAt: now },
    }
    this.#sessions.set(id, session)
    return session
  }

  #makeRoom(holder: string, workspace: string): void {
    const all = [...this.#sessions.values()]
    const own = all.filter(session => session.holder === holder)
    const ofWorkspace = all.filter(session => session.workspace === workspace)
    const most = this.#most
    const isFull =
      own.length >= most.key || ofWorkspace.length >= most.workspace || all.length >= most.all
    if (!isFull) return
    const idle = own.find(({ stream }) => !stream) ?? own[0]
    if (!idle) throw unavailable('There are as many MCP sessions as may be: end one of them')
    this.#forget(idle)
  }

  /** Finds a session of this actor at this path; undefined if there is none. */
  find(id: string, actor: Actor, label: string | null, now: number): ClientSession | undefined {
    this.#forgetIdle(now)
    const session = this.#sessions.get(id)
    if (session?.holder !== nameHolder(actor) || session.label !== label) return undefined
    session.usedAt = now
    this.#sessions.delete(id)
    this.#sessions.set(id, session)
    return session
  }

  /** Ends a session and its stream. */
  end(session: ClientSession): void {
    this.#forget(session)
  }

  #forgetIdle(now: number): void {
    for (const session of this.#sessions.values()) {
      if (now - session.usedAt < LONGEST_IDLE) return
      if (session.stream) session.usedAt = now
      else this.#forget(session)
    }
  }

  #forget(session: ClientSession | undefined): void {
    if (!session) return
    this.#sessions.delete(session.id)
    session.stream?.end()
    for (const answer of session.questions.values()) answer({})
  }
}

const nameHolder = ({ key_hash, kind }: Actor): string => key_hash ?? kind

/** What a client is sent as server-sent events: the end comes after what was sent before it. */
export class MessageStream implements AsyncIterator<string> {
  readonly #waiting = new Set<string>()
  readonly #onEnd: () => void
  #wake: (() => void) | null = null
  #isEnded = false

  constructor(onEnd: () => void) {
    this.#onEnd = onEnd
  }

  /** Sends a message. Of those that are the same and were not read yet, one is sent. */
  send(message: object): void {
    this.#waiting.add(JSON.stringify({ jsonrpc: '2.0', ...message }))
    this.#wake?.()
  }

  end(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#onEnd()
    this.#wake?.()
  }

  async next(): Promise<IteratorResult<string>> {
    while (this.#waiting.size === 0 && !this.#isEnded)
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    if (this.#waiting.size === 0) return { done: true, value: undefined }
    const messages = [...this.#waiting]
    this.#waiting.clear()
    return {
      done: false,
      value: messages.map(text => `event: message\ndata: ${text}\n\n`).join(''),
    }
  }

  async return(): Promise<IteratorResult<string>> {
    this.#waiting.clear()
    this.end()
    return { done: true, value: undefined }
  }
}

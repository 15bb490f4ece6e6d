import { Timeout } from '../../base/clock.ts'
import { denied } from '../../base/errors.ts'
import { isObject, type Json } from '../../base/json.ts'
import { clientLeft } from '../../engine/run.ts'
import type { McpServer } from '../tools/mcp/server.ts'
import type { ExtensionWorld } from '../world.ts'
import type { ClientSession, MessageStream } from './sessions.ts'

/** A client that waits for an answer, and what it may be asked by until then. */
export interface WaitingClient {
  /** Null for one that keeps none. */
  session: ClientSession | null
  /** Opens a stream for questions before the answer; null for a client that reads none. */
  openStream: (() => MessageStream) | null
  signal: AbortSignal
}

/** A call of a tool, as a user allows it. */
interface Subject {
  server: McpServer
  tool: string
  input: Json
}

/** Who allows something has to see all of it. */
const LONGEST_ARGUMENTS = 64 * 1024
/** More would be questions that no user answers. */
const MOST_QUESTIONS = 16

/**
 * Asks the client's user to allow a call, where the operator wants that: once, for this call alone,
 * by elicitation. Returns whether it had to. Throws 403 unless they allow it, and for a client that
 * cannot ask.
 */
export async function getApproval(
  world: ExtensionWorld,
  { session, openStream, signal }: WaitingClient,
  { server: { label }, tool, input }: Subject,
): Promise<boolean> {
  const { mcp_servers, mcp, service_name } = world.config
  if (mcp_servers[label]?.require_approval !== 'always') return false
  const refuse = (reason: string) =>
    denied(`The tool ${tool} needs an approval (mcp_servers.${label}.require_approval): ${reason}`)
  if (!session?.canAsk || !openStream)
    throw refuse('only clients that declare elicitation can be asked for it')
  const shown = showArguments(input)
  if (shown.length > LONGEST_ARGUMENTS) throw refuse('its arguments are too long to be shown')
  if (session.questions.size >= MOST_QUESTIONS) throw refuse('too many of them are waiting')
  const id = world.ids.uuid()
  const answered = Promise.withResolvers<Json>()
  const refuseLate = () => answered.reject(refuse('there was no answer in time'))
  const timeout = new Timeout(mcp.approval_seconds * 1000, refuseLate)
  const leave = () => answered.reject(clientLeft())
  signal.addEventListener('abort', leave, { once: true })
  session.questions.set(id, answered.resolve)
  try {
    const message = `${service_name}: allow the tool ${tool} of ${label} with ${shown}?`
    const requestedSchema = { type: 'object', properties: {} }
    const question = { id, method: 'elicitation/create', params: { message, requestedSchema } }
    openStream().send(question)
    const { result } = await answered.promise
    if (isObject(result) && result.action === 'accept') return true
    throw refuse('it was not given')
  } finally {
    session.questions.delete(id)
    signal.removeEventListener('abort', leave)
    timeout.stop()
  }
}

/** Characters that show others differently, or nothing at all. */
const UNSEEN = /[\p{Cf}\p{Cc}\p{Co}\p{Zl}\p{Zp}]/gu

/** Shows arguments as they are: what cannot be seen stands as its escape. */
const showArguments = (input: Json): string =>
  JSON.stringify(input).replace(UNSEEN, character =>
    [...Array(character.length).keys()]
      .map(i => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`)
      .join(''),
  )

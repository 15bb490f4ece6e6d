import { join, resolve } from 'node:path'
import { getDataDirectory, hasData } from './data-directory.ts'
import { openRemote, type Remote } from './remote.ts'
import { openConversation } from './status-socket.ts'
import { findLockHolder, renderHolder } from './system-errors/holders.ts'

/** Where a feed comes from: the server of a data directory, or a gateway elsewhere. */
export interface FeedPlace {
  data?: string
  url?: string
  /** How many past calls it begins with; none by default. */
  past?: number
}

/** What happens at a gateway, until it ends or is closed: batches of entries, each as JSON. */
export interface Feed {
  batches: AsyncGenerator<string[], void>
  close(): void
}

/**
 * Opens the feed of the server of this data directory, first with so many past calls. Throws 404 where none runs, and what the
 * system throws where the directory is closed to this user.
 */
export async function openLocalFeed(data: string, past = 0): Promise<Feed> {
  const conversation = await openConversation(data, { do: 'watch', past })
  if (!conversation) throw await describeSilence(data)
  return { batches: conversation.batches, close: conversation.close }
}

/**
 * Opens the feed of a gateway elsewhere, first with so many past calls. Throws what it refuses it
 * with. An older gateway, which does not know past calls, tells none.
 */
export async function openRemoteFeed(remote: Remote, past = 0): Promise<Feed> {
  const { events, close } = await remote.stream(
    `/activity/stream${past > 0 ? `?past=${past}` : ''}`,
  )
  return { batches: events, close }
}

/**
 * Opens a feed by the options of a command. The key of a gateway elsewhere is that of
 * `GATEWAY_KEY`, or is asked for.
 */
export async function openFeed({ url, data, past }: FeedPlace): Promise<Feed> {
  return url === undefined
    ? openLocalFeed(getDataDirectory(data === undefined ? {} : { data }), past)
    : openRemoteFeed(await openRemote(url, await readKey()), past)
}

/** Reads the key for a gateway elsewhere: `GATEWAY_KEY`, or what is typed. */
export async function readKey(): Promise<string> {
  const { GATEWAY_KEY } = process.env
  if (GATEWAY_KEY) return GATEWAY_KEY
  const { readSecret } = await import('./prompt.ts')
  return readSecret('The management key (GATEWAY_KEY)')
}

/** Says why no server of a data directory answers. */
export async function describeSilence(data: string): Promise<Error> {
  const { notFound } = await import('../base/errors.ts')
  // It throws where the directory is closed to this user: a server may run there.
  hasData(data)
  const holder = renderHolder(findLockHolder(join(data, 'serve.lock')))
  return holder
    ? new Error(`${resolve(data)} is served${holder}, which does not tell its state`)
    : notFound(`No server runs on ${resolve(data)}: gateway serve starts one`)
}

/**
 * Asks the server of a data directory to do something. Throws what it refuses it with, and 404
 * where none runs.
 */
export async function askServer(data: string, request: Record<string, unknown>): Promise<unknown> {
  const { GatewayError } = await import('../base/errors.ts')
  const conversation = await openConversation(data, request)
  if (!conversation) throw await describeSilence(data)
  try {
    const { value: [value] = [] } = await conversation.batches.next()
    if (!value) throw new Error('The server ended before it answered')
    const answer = JSON.parse(value)
    if (answer.error) throw new GatewayError(answer.error.type, answer.error.message)
    return answer
  } finally {
    conversation.close()
  }
}

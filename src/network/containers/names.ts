/** Names a container that has no name of its own: after its session, or after its call. */

/** The most characters that a session gives to its container’s name. */
const LONGEST_SESSION = 20

/**
 * Returns the name of a session’s container: `sess_` and its last 20 characters. Null for a session
 * id with other characters than letters, digits, `_` and `-`, which is as good as none (F.4).
 */
export const nameSessionContainer = (session: string | null | undefined): string | null =>
  session && /^[A-Za-z0-9_-]+$/.test(session) ? `sess_${session.slice(-LONGEST_SESSION)}` : null

/** Returns the name of the container of one call, which no other call has. */
export const nameCallContainer = (callId: string): string =>
  `gen_${new Bun.CryptoHasher('sha256').update(callId).digest('hex').slice(0, 20)}`

/** How the name of a session’s container goes on after the first one was ended. */
export const RESTART = '-r'
/** What follows that: so many hexadecimal digits, which are random. */
export const NONCE_LENGTH = 6

/** Whether a container is one that a session has got after its first one, of this name, was ended. */
export const isSuccessor = (container: string, name: string): boolean =>
  isSessionContainer(name) &&
  container.startsWith(name + RESTART) &&
  /^[0-9a-f]{6}$/.test(container.slice(name.length + RESTART.length))

/** Whether a name is that of a session’s container. */
export const isSessionContainer = (name: string): boolean => name.startsWith('sess_')

/** Whether a text may be the name of a container (F.4). */
export const isContainerName = (name: string): boolean => /^[\w-]{1,40}$/.test(name)

const FILE_ID = 'cfile_'

/** Returns the id of a container’s file: `cfile_` and its path in base64url, without padding. */
export const buildFileId = (path: string): string =>
  FILE_ID + Buffer.from(path).toString('base64url')

/** Returns the path that an id stands for; undefined for what is no such id. */
export function readFileId(id: string): string | undefined {
  if (!id.startsWith(FILE_ID)) return undefined
  const path = Buffer.from(id.slice(FILE_ID.length), 'base64url').toString()
  // A path has one id. Another text of the same bytes is none.
  return path !== '' && buildFileId(path) === id ? path : undefined
}

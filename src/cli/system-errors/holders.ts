import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'

/** A process that holds something which this one needs. */
interface Holder {
  pid: number
  name: string
}

/**
 * Finds the process that listens on a port, where the system shows it: on Linux, for processes of
 * the same user. Never throws.
 */
export function findPortHolder(port: number): Holder | undefined {
  const sockets = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap(table =>
    readLines(table).flatMap(line => readListener(line, port)),
  )
  if (sockets.length === 0) return undefined
  const links = new Set(sockets.map(inode => `socket:[${inode}]`))
  const pid = listProcesses().find(one => listOpenFiles(one).some(link => links.has(link)))
  return pid === undefined ? undefined : describeProcess(pid)
}

/** Finds the process that has locked a file, where the system shows it. Never throws. */
export function findLockHolder(path: string): Holder | undefined {
  const inode = readIfPossible(() => statSync(path).ino)
  const line = readLines('/proc/locks').find(one => one.split(/\s+/)[5]?.endsWith(`:${inode}`))
  const pid = Number(line?.split(/\s+/)[4])
  return pid > 0 ? describeProcess(pid) : undefined
}

/** Renders a holder for a sentence: ` by gateway (process 12)`. */
export const renderHolder = (holder: Holder | undefined): string =>
  holder ? ` by ${holder.name} (process ${holder.pid})` : ''

const LISTENS = '0A'

function readListener(line: string, port: number): string[] {
  const [, , local = '', , state, , , , , , inode = ''] = ` ${line.trim()}`.split(/\s+/)
  const isHere = Number.parseInt(local.split(':')[1] ?? '', 16) === port
  return state === LISTENS && isHere ? [inode] : []
}

const listProcesses = (): number[] =>
  (readIfPossible(() => readdirSync('/proc')) ?? []).map(Number).filter(pid => pid > 0)

const listOpenFiles = (pid: number): string[] =>
  (readIfPossible(() => readdirSync(`/proc/${pid}/fd`)) ?? []).flatMap(
    descriptor => readIfPossible(() => readlinkSync(`/proc/${pid}/fd/${descriptor}`)) ?? [],
  )

const describeProcess = (pid: number): Holder => ({
  pid,
  name: readIfPossible(() => readFileSync(`/proc/${pid}/comm`, 'utf8').trim()) ?? 'a program',
})

const readLines = (path: string): string[] =>
  readIfPossible(() => readFileSync(path, 'utf8').split('\n')) ?? []

function readIfPossible<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'

/** What a sandbox must not reach: a secret, servers, and processes that would outlive it. */
export interface Host {
  /** A text that is in a file, in the environment and in what the servers say. */
  secret: string
  directory: string
  file: string
  port: number
  udpPort: number
  socket: string
  /** In the name of every process that would outlive its command. */
  marker: string
  hostname: string
  /** How often anything was reached. */
  readonly reached: number
  close(): void
}

/** Opens a host that everybody on this machine may read and ask. */
export async function openHost(): Promise<Host> {
  const secret = crypto.randomUUID()
  const directory = mkdtempSync(join(tmpdir(), 'gateway-host-'))
  const file = join(directory, 'secret.txt')
  writeFileSync(file, secret)
  // Everybody may read it: it is the sandbox that must not, and not the kernel’s users.
  Bun.spawnSync(['chmod', '-R', 'a+rwX', directory])
  process.env.GATEWAY_TEST_SECRET = secret
  let reached = 0
  const socket = {
    open(peer: { write(text: string): unknown; end(): unknown }) {
      reached += 1
      peer.write(secret)
      peer.end()
    },
    data() {},
  }
  const tcp = Bun.listen({ hostname: '0.0.0.0', port: 0, socket })
  const path = join(directory, 'host.sock')
  const unix = Bun.listen({ unix: path, socket })
  Bun.spawnSync(['chmod', 'a+rw', path])
  const udp = await Bun.udpSocket({
    hostname: '127.0.0.1',
    socket: {
      data() {
        reached += 1
      },
    },
  })
  return {
    ...{ secret, directory, file, port: tcp.port, udpPort: udp.port, socket: path },
    ...{ marker: String(41_000_000 + Math.floor(Math.random() * 900_000)), hostname: hostname() },
    get reached() {
      return reached
    },
    close() {
      delete process.env.GATEWAY_TEST_SECRET
      tcp.stop(true)
      unix.stop(true)
      udp.close()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Lists the processes of this machine whose command line has a text. */
export const findProcesses = (text: string): string[] =>
  readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .filter(pid => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(text)
      } catch {
        return false
      }
    })

/** Lists the processes that a process has started, and theirs, with the times of their starts. */
export function listDescendants(pid: number): string[] {
  const all = readdirSync('/proc').filter(name => /^\d+$/.test(name))
  const parents = new Map(all.flatMap(child => readParent(child)))
  const isBelow = (child: string): boolean => {
    const parent = parents.get(child)
    return parent !== undefined && (parent === String(pid) || isBelow(parent))
  }
  return all.filter(isBelow).map(identifyProcess)
}

/** Whether a process that `listDescendants` has named is still there. */
export const isRunning = (identity: string): boolean =>
  identifyProcess(identity.split(' ')[0] ?? '') === identity

const identifyProcess = (pid: string): string => `${pid} ${readStat(pid)?.[19]}`

const readParent = (pid: string): [string, string][] => {
  const parent = readStat(pid)?.[1]
  return parent === undefined ? [] : [[pid, parent]]
}

/** Reads what the kernel says of a process, from its state on; undefined for a gone one. */
function readStat(pid: string): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // What waits for its parent only is gone.
    return fields[0] === 'Z' ? undefined : fields
  } catch {
    return undefined
  }
}

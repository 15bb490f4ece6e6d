import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { type Agent, type AgentTarget, renderBlock } from '../../src/cli/commands/agent.ts'
import { DONE, MCP, PROOF, TASK } from './task.ts'

/** In milliseconds. */
const LONGEST_INSTALL = 300_000
const LONGEST_RUN = 60_000

/** How a program ended: null if it was ended because it took too long. */
interface Ended {
  code: number | null
  text: string
}

/** What an agent is given beside its block. */
interface Surroundings {
  key: string
  /** Leads to the gateway alone. */
  proxy: string
  /** The flags by which it knows an MCP server; empty for none. */
  mcp: string
}

/** An agent in a directory of its own, outside this repository. */
export class InstalledAgent {
  readonly #agent: Agent
  readonly #directory: string
  readonly version: string

  constructor(agent: Agent, directory: string, version: string) {
    this.#agent = agent
    this.#directory = directory
    this.version = version
  }

  /**
   * Has it do the task with its block alone, in a new home. Returns what went wrong, and undefined
   * if all is done.
   */
  async finishTask(
    target: AgentTarget,
    { key, proxy, mcp }: Surroundings,
  ): Promise<string | undefined> {
    const home = mkdtempSync(join(this.#directory, 'home-'))
    const cwd = join(home, 'project')
    mkdirSync(cwd)
    const line = `${renderBlock(this.#agent, target)} ${mcp} ${this.#agent.once}\n`
    const { code, text } = await runBounded(['bash', '-ec', line], LONGEST_RUN, {
      ...{ cwd, log: join(home, 'run.log') },
      env: {
        ...{ ...ENVIRONMENT, HOME: home, PATH: this.#path, GATEWAY_KEY: key, TASK },
        ...{ HTTP_PROXY: proxy, HTTPS_PROXY: proxy, NO_PROXY: '127.0.0.1' },
      },
    })
    if (code === null) return `not done in ${LONGEST_RUN / 1_000} s`
    const proof = Bun.file(join(cwd, PROOF.file))
    const content = (await proof.exists()) ? await proof.text() : ''
    if (code === 0 && content === PROOF.content && text.includes(DONE)) return undefined
    return `ended with ${code}: ${text.trim().split('\n').at(-1)?.slice(0, 120)}`
  }

  get #path(): string {
    return [join(this.#directory, 'node_modules/.bin'), process.env.PATH].join(delimiter)
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

/** The command of an MCP server on stdin and stdout. */
export const MCP_COMMAND = [process.execPath, join(import.meta.dir, 'mcp-server.ts')]

/** Has Codex start the MCP server itself. */
export function renderOwnMcp(): string {
  const [command, ...args] = MCP_COMMAND
  const server = `{command=${JSON.stringify(command)},args=${JSON.stringify(args)}}`
  return `-c 'mcp_servers.${MCP.server}=${server}'`
}

/** Has Claude Code use the MCP server of a gateway, under a key. */
export function renderGatewayMcp(url: string, key: string): string {
  const headers = { Authorization: `Bearer ${key}` }
  const server = { type: 'http', url: `${url}/mcp/${MCP.server}`, headers }
  const servers = { mcpServers: { [MCP.server]: server } }
  const settings = { permissions: { allow: [`mcp__${MCP.server}__${MCP.tool}`] } }
  return `--settings '${JSON.stringify(settings)}' --mcp-config '${JSON.stringify(servers)}'`
}

/** What keeps agents from telling others about themselves. */
const ENVIRONMENT = {
  ...{ LANG: 'C.UTF-8', TERM: 'dumb', NO_COLOR: '1', CI: '1' },
  ...{ DO_NOT_TRACK: '1', DISABLE_TELEMETRY: '1', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' },
  ...{ OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_AUTOUPDATE: '1' },
  ...{ CONTINUE_TELEMETRY_ENABLED: '0', PI_OFFLINE: '1' },
}

/** Installs an agent. Returns why it cannot be had in place of it. */
export async function installAgent(
  agent: Agent,
  isLatest: boolean,
): Promise<InstalledAgent | string> {
  const directory = mkdtempSync(join(tmpdir(), 'gateway-agent-'))
  await Bun.write(join(directory, 'package.json'), '{ "private": true }')
  const name = isLatest ? agent.package : `${agent.package}@${agent.version}`
  const command = ['npm', 'install', '--loglevel', 'error', '--no-audit', '--no-fund', name]
  const { code, text } = await runBounded(command, LONGEST_INSTALL, {
    ...{ cwd: directory, log: join(directory, 'install.log') },
  })
  const manifest = Bun.file(join(directory, 'node_modules', agent.package, 'package.json'))
  if (code === 0 && (await manifest.exists()))
    return new InstalledAgent(agent, directory, (await manifest.json()).version)
  rmSync(directory, { recursive: true, force: true })
  const reason = /^npm error (code .+)$/m.exec(text)?.[1]
  return reason ?? 'it does not install'
}

/** Runs a program to its end or that of its time: then it is ended, with what it has started. */
async function runBounded(
  command: string[],
  milliseconds: number,
  { cwd, env = process.env, log }: { cwd: string; env?: NodeJS.ProcessEnv; log: string },
): Promise<Ended> {
  // A file, as what it leaves behind would hold a pipe open.
  const output = openSync(log, 'a')
  const mark = crypto.randomUUID()
  const child = Bun.spawn(command, {
    ...{ cwd, env: { ...env, [MARK]: mark } },
    ...{ stdin: 'ignore', stdout: output, stderr: output },
    ...{ timeout: milliseconds, killSignal: 'SIGKILL' },
  })
  const code = await child.exited
  endMarked(mark)
  closeSync(output)
  return { code: child.signalCode === null ? code : null, text: readFileSync(log, 'utf8') }
}

/** A variable that all have which a run has started, whatever became of their parents. */
const MARK = 'GATEWAY_AGENT_RUN'

/** Ends each process with this mark, as far as the system tells who has it. */
function endMarked(mark: string): void {
  const pids = existsSync('/proc') ? readdirSync('/proc').filter(name => /^\d+$/.test(name)) : []
  for (const pid of pids)
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, 'latin1')
      if (environment.includes(`${MARK}=${mark}`)) process.kill(Number(pid), 'SIGKILL')
    } catch {
      // It has ended, or is another user's.
    }
}

/** A proxy that leads to one address of this host, and refuses all others. */
export interface ClosedProxy {
  url: string
  stop(): void
}

const REFUSED = 'HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n'
const OPENED = 'HTTP/1.1 200 Connection established\r\n\r\n'

/**
 * Starts the proxy that agents are given, so that they reach the gateway and nobody else. Those that
 * honour `NO_PROXY` do not ask it for the gateway.
 */
export async function startClosedProxy(allowed: string): Promise<ClosedProxy> {
  const { host, port } = new URL(allowed)
  const server = createServer(socket => {
    socket.on('error', () => socket.destroy())
    socket.once('data', head => {
      if (!head.toString('latin1').startsWith(`CONNECT ${host} `)) socket.end(REFUSED)
      else joinTo(socket, Number(port))
    })
  })
  await listenOn(server)
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () => void server.close(),
  }
}

function joinTo(socket: Socket, port: number): void {
  const other = connect(port, '127.0.0.1', () => {
    socket.write(OPENED)
    socket.pipe(other).pipe(socket)
  })
  other.on('error', () => socket.destroy())
}

const listenOn = (server: Server): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })

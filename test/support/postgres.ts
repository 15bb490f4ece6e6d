import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SQL } from 'bun'
import { VERSION } from '../../src/store/postgres/schema.ts'

const DEBIAN = '/usr/lib/postgresql'

/** Finds where the programs of Postgres are; null where they are not installed. */
function findPrograms(): string | null {
  if (!existsSync(DEBIAN)) return null
  const [newest] = readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a))
  const programs = newest && join(DEBIAN, newest, 'bin')
  return programs && existsSync(join(programs, 'initdb')) ? programs : null
}

/** Whether a test may install what it needs, and has to become another user for servers. */
export const isRoot = () => process.getuid?.() === 0

/** Runs a command, and tells whether it did well. No service that it installs is started. */
export const runQuietly = async (command: string[]): Promise<boolean> => {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  const options = { env, stdin: 'ignore', stdout: 'ignore', stderr: 'ignore' } as const
  return (await Bun.spawn(command, options).exited) === 0
}

/** Tells whether there is a Postgres. Installs Debian's if it may, which takes a minute. */
export async function hasPostgres(): Promise<boolean> {
  if (findPrograms()) return true
  if (!isRoot() || !existsSync('/usr/bin/apt-get')) return false
  if (await runQuietly(['apt-get', 'update']))
    await runQuietly(['apt-get', 'install', '-y', '--no-install-recommends', 'postgresql'])
  return findPrograms() !== null
}

/** A server of Postgres on this machine. Disposing of it ends the server and removes its data. */
export interface PostgresServer extends AsyncDisposable {
  /** The URL of its database. */
  url: string
  /** The process that has started all others of it. */
  readonly pid: number
  /** Removes the rows of all tables of a store: a new database takes twenty times as long. */
  empty(): Promise<void>
  /** Runs a statement as another program. */
  run(statement: string): Promise<unknown[]>
  /** Ends every connection but its own, as an operator does. */
  cut(): Promise<void>
  /** Has no process of the server run, or go on: its connections stay. */
  freeze(isFrozen: boolean): Promise<void>
  /** Ends the server at once, as a kill of its machine would. */
  stop(): Promise<void>
  /** Starts it again, at the same place. */
  start(): Promise<void>
}

/** Servers of Postgres refuse to run as root. */
export const asUser = (): string[] =>
  isRoot() ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups'] : []

/** Makes a directory that the user of servers owns. */
export async function makeUserDirectory(): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'gateway-postgres-'))
  if (isRoot()) await runQuietly(['chown', 'postgres', directory])
  return directory
}

const runProgram = async (name: string, ...args: string[]): Promise<void> => {
  const programs = findPrograms()
  if (!programs) throw new Error('Postgres is not installed')
  const isDone = await runQuietly([...asUser(), join(programs, name), ...args])
  if (!isDone) throw new Error(`${name} failed`)
}

async function launch(data: string, more: Record<string, string | number>) {
  const settings = {
    ...{ listen_addresses: '127.0.0.1', unix_socket_directories: '', fsync: 'off' },
    ...more,
  }
  const server = Bun.spawn(
    [
      ...[...asUser(), join(findPrograms() ?? '', 'postgres'), '-D', data],
      ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    { stdin: 'ignore', stdout: 'ignore', stderr: 'pipe' },
  )
  await untilReady(server.stderr)
  return server
}

/** Starts a server that follows another one, and can be read. */
export async function startStandby(
  primary: PostgresServer,
): Promise<AsyncDisposable & { url: string }> {
  const directory = await makeUserDirectory()
  const data = join(directory, 'data')
  await runProgram(
    'pg_basebackup',
    '--dbname',
    primary.url,
    '--pgdata',
    data,
    '--write-recovery-conf',
    '--checkpoint=fast',
  )
  const port = await findFreePort()
  const server = await launch(data, { port })
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    async [Symbol.asyncDispose]() {
      server.kill('SIGQUIT')
      await server.exited
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** The data of a server that never ran: to copy it takes a tenth of the time. */
let initialized: Promise<string> | undefined

async function initialize(): Promise<string> {
  const directory = await makeUserDirectory()
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }))
  const data = join(directory, 'data')
  // Hundreds of servers are in memory, where a segment takes 16 MB otherwise.
  const options = ['--auth=trust', '--no-sync', '--encoding=UTF8', '--locale=C', '--wal-segsize=1']
  await runProgram('initdb', '--pgdata', data, '--username', 'postgres', ...options)
  return data
}

/** Starts a server of Postgres, with what its settings have besides. */
export async function startPostgres(more: Record<string, string> = {}): Promise<PostgresServer> {
  const directory = await makeUserDirectory()
  const data = join(directory, 'data')
  initialized ??= initialize()
  await runQuietly(['cp', '-a', await initialized, data])
  const port = await findFreePort()
  const relaunch = () => launch(data, { port, ...more })
  let server = await relaunch()
  const stop = async () => {
    server.kill('SIGQUIT')
    await server.exited
  }
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  const operator = new SQL(url, { max: 1 })
  return {
    url,
    get pid() {
      return server.pid
    },
    async empty() {
      await operator.unsafe(EMPTY)
    },
    run: async statement => [...(await operator.unsafe(statement))],
    async cut() {
      await operator.unsafe(
        'select pg_terminate_backend(pid) from pg_stat_activity ' +
          "where pid <> pg_backend_pid() and backend_type = 'client backend'",
      )
    },
    async freeze(isFrozen) {
      const listed = Bun.spawn(['pgrep', '-P', String(server.pid)], { stdout: 'pipe' })
      const children = (await new Response(listed.stdout).text()).trim().split('\n').map(Number)
      for (const pid of [server.pid, ...children])
        process.kill(pid, isFrozen ? 'SIGSTOP' : 'SIGCONT')
    },
    stop,
    async start() {
      server = await relaunch()
    },
    async [Symbol.asyncDispose]() {
      await operator.close()
      await stop()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

// Without triggers: some tables refuse that their rows are removed.
const EMPTY = `do $$
declare one record;
begin
  set local session_replication_role = replica;
  for one in select tablename as name from pg_tables where schemaname = 'gateway' loop
    execute format('delete from gateway.%I', one.name);
  end loop;
  if to_regclass('gateway.gate') is not null then
    insert into gateway.gate values (0, ${VERSION});
    insert into gateway.numbers values ('generations', 0);
    insert into gateway.transcript_use values (0);
  end if;
end $$`

async function untilReady(log: ReadableStream<Uint8Array>): Promise<void> {
  const lines = new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>
  let text = ''
  const reader = log.pipeThrough(lines).getReader()
  while (!text.includes('ready to accept')) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`Postgres did not start: ${text}`)
    text += value
  }
  // Read on, so that the server is never kept from writing.
  void (async () => {
    while (!(await reader.read()).done);
  })()
}

/** Finds a port on which nobody listens. */
export const findFreePort = (): Promise<number> => {
  const { promise, resolve } = Promise.withResolvers<number>()
  const listener = createServer().listen(0, '127.0.0.1', () => {
    const { port } = listener.address() as { port: number }
    listener.close(() => resolve(port))
  })
  return promise
}

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import S3rver from 's3rver'
import { openGateway } from '../../src/app/gateway.ts'
import { createDefaultConfig } from '../../src/config.ts'
import { createFirstKeys } from '../../src/resources/workspaces.ts'
import { createMemoryBlobs } from '../../src/store/blobs/memory.ts'
import { BUCKET_KEYS } from './bucket.ts'
import { type PostgresServer, startPostgres } from './postgres.ts'
import { Listener, PROGRAM, readAddress, runGateway } from './server.ts'

const SECRET = 'a secret of tests that is long enough'

/** A server of several. */
export class Node extends Listener {
  readonly data: string
  readonly process: Bun.Subprocess<'ignore', 'pipe', 'pipe'>
  readonly stderr: Promise<string>

  constructor(
    url: string,
    data: string,
    child: Bun.Subprocess<'ignore', 'pipe', 'pipe'>,
    stderr: Promise<string>,
  ) {
    super(url, { management_key: '', inference_key: '' })
    this.data = data
    this.process = child
    this.stderr = stderr
  }

  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    this.process.kill(signal)
    await this.process.exited
  }
}

/** Several servers in processes of their own, over one database and one bucket. */
export interface Nodes extends AsyncDisposable {
  postgres: PostgresServer
  management_key: string
  inference_key: string
  /** Starts one in a directory, a new one by default, with what its config and its line have besides. */
  start(
    data?: string,
    more?: Record<string, unknown>,
    args?: string[],
    program?: string[],
  ): Promise<Node>
  /** Runs a command beside them. */
  run(args: string[], program?: string[]): ReturnType<typeof runGateway>
  /** Reads one number. */
  read(query: string): Promise<bigint>
}

/** Starts the database and the bucket of several servers, which have the config but for storage. */
export async function openNodes(config: Record<string, unknown>): Promise<Nodes> {
  // In the order of their start: what fails on the way leaves nothing behind.
  await using starting = new AsyncDisposableStack()
  const root = mkdtempSync(join(tmpdir(), 'gateway-nodes-'))
  starting.defer(() => rmSync(root, { recursive: true, force: true }))
  const postgres = starting.use(await startPostgres())
  const bucket = new S3rver({
    ...{ address: '127.0.0.1', port: 0, silent: true, directory: join(root, 's3') },
    configureBuckets: [{ name: 'files', configs: [] }],
  })
  const endpoint = `http://127.0.0.1:${(await bucket.run()).port}`
  starting.defer(() => bucket.close())
  const s3 = { endpoint, bucket: 'files', region: 'us-east-1', prefix: 'gateway', ...BUCKET_KEYS }
  const stored = { postgres: { url: postgres.url }, files: 's3', s3 }
  const own = { ...config, storage: { ...(config.storage as object), ...stored } }
  const env = { ...process.env, GATEWAY_SECRET: SECRET }
  const defaults = createDefaultConfig()
  const storage = { ...defaults.storage, postgres: { url: postgres.url, connections: 2 } }
  const data = mkdtempSync(join(root, 'command-'))
  writeFileSync(join(data, 'gateway.yaml'), JSON.stringify(own))
  const first = await openGateway({
    ...{ data, secret: SECRET, config: { ...defaults, storage }, blobs: createMemoryBlobs() },
  })
  const { management_key = '', inference_key = '' } = (await createFirstKeys(first)) ?? {}
  await first.close()
  const children: Node['process'][] = []
  starting.defer(async () => {
    for (const child of children) child.kill('SIGKILL')
    await Promise.all(children.map(child => child.exited))
  })
  const ends = starting.move()
  return {
    ...{ postgres, management_key, inference_key },
    async start(
      directory = mkdtempSync(join(root, 'node-')),
      more = {},
      args = [],
      program = PROGRAM,
    ) {
      writeFileSync(join(directory, 'gateway.yaml'), JSON.stringify({ ...own, ...more }))
      const command = ['serve', '--port', '0', '--data', directory, '--log', 'json', ...args]
      const child = Bun.spawn([...program, ...command], {
        ...{ cwd: directory, env, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
      })
      children.push(child)
      const stderr = new Response(child.stderr).text()
      return new Node(await readAddress(child, stderr), directory, child, stderr)
    },
    run: (args, program = PROGRAM) =>
      runGateway([...args, '--data', data], { env: { GATEWAY_SECRET: SECRET }, program }),
    async read(query) {
      const [row] = (await postgres.run(`select coalesce((${query}), 0)::text as found`)) as {
        found: string
      }[]
      return BigInt(row?.found ?? 0)
    },
    [Symbol.asyncDispose]: () => ends.disposeAsync(),
  }
}

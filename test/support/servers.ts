import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, type GatewayParts, openGateway } from '../../src/app/gateway.ts'
import { parseConfig } from '../../src/config.ts'
import { createFirstKeys } from '../../src/resources/workspaces.ts'
import { listen, type RunningServer } from '../../src/server/listen.ts'
import { createMemoryBlobs } from '../../src/store/blobs/memory.ts'
import { Listener } from './server.ts'
import { SHARED_WORKERS } from './workers.ts'

/** One of several servers of a store. */
export class SharingServer extends Listener {
  readonly gateway: Gateway
  readonly #data: string
  readonly #running: RunningServer

  constructor(
    { gateway, data, running }: { gateway: Gateway; data: string; running: RunningServer },
    keys: { management_key: string; inference_key: string },
  ) {
    super(running.url, keys)
    this.gateway = gateway
    this.#data = data
    this.#running = running
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#running.stop(0)
    await this.gateway.recorder.flush().catch(() => undefined)
    await this.gateway.close()
    rmSync(this.#data, { recursive: true, force: true })
  }
}

interface SharingOptions {
  config?: Record<string, unknown>
  /** The parts of each server. */
  parts?: Partial<Omit<GatewayParts, 'config' | 'data'>>
}

/**
 * Starts a server over each of these URLs, of one database in Postgres: each has a data directory of
 * its own, and all have the keys of the first and the files of all. They join the list
 * one by one.
 */
export async function startSharing(
  urls: string[],
  servers: SharingServer[],
  { config = {}, parts = {} }: SharingOptions = {},
): Promise<void> {
  const blobs = createMemoryBlobs()
  let keys: { management_key: string; inference_key: string } | undefined
  for (const url of urls) {
    const data = mkdtempSync(join(tmpdir(), 'gateway-sharing-'))
    const storage = { ...(config.storage as object), postgres: { url, connections: 3 } }
    const gateway = await openGateway({
      ...{ ...SHARED_WORKERS, blobs, secret: 'a secret of tests that is long enough' },
      ...{ data, access: 'server', ...parts },
      config: parseConfig(JSON.stringify({ ...config, storage }), {}),
    })
    keys ??= await createFirstKeys(gateway)
    if (!keys) throw new Error('This database has its first keys already')
    servers.push(
      new SharingServer({ gateway, data, running: listen(gateway, '127.0.0.1', 0) }, keys),
    )
  }
}

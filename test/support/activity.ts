import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { tellStatus } from '../../src/cli/commands/serve/status.ts'
import { parseConfig } from '../../src/config.ts'
import type { ActivityEntry } from '../../src/extensions/activity/entries.ts'
import { createFirstKeys } from '../../src/resources/workspaces.ts'
import { listen, type RunningServer } from '../../src/server/listen.ts'
import { lockData } from '../../src/store/sqlite/lock.ts'
import { Listener } from './server.ts'

/** A server in this process that tells its state and its feed over its data directory's socket. */
export class TellingServer extends Listener {
  readonly data: string
  readonly gateway: Gateway
  readonly #running: RunningServer
  readonly #silence: () => void
  readonly #unlock: () => void

  constructor(
    data: string,
    gateway: Gateway,
    running: RunningServer,
    keys: { management_key: string; inference_key: string },
  ) {
    super(running.url, keys)
    this.data = data
    this.gateway = gateway
    this.#running = running
    this.#unlock = lockData(data)
    this.#silence = tellStatus(gateway, {
      ...{ data, home: data, url: running.url, metrics_url: null, file: null, worker: null },
      store: 'directory',
      beginHandover: () => Promise.reject(new Error('This server hands nothing over')),
    })
  }

  /** Makes a call of the sandbox to its end. */
  async call(text = 'Hello', more: object = {}): Promise<Response> {
    const messages = [{ role: 'user', content: text }]
    const response = await this.fetch('/chat/completions', {
      json: { model: 'sandbox/echo', messages, ...more },
    })
    await response.clone().text()
    return response
  }

  /** Stops telling, as a server does that ends. */
  silence(): void {
    this.#silence()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#silence()
    await this.#running.stop(0)
    await this.gateway.close()
    this.#unlock()
    rmSync(this.data, { recursive: true, force: true })
  }
}

export async function startTellingServer(config: object = {}): Promise<TellingServer> {
  const data = mkdtempSync(join(tmpdir(), 'gateway-told-'))
  const gateway = await openGateway({ data, config: parseConfig(JSON.stringify(config), {}) })
  const keys = await createFirstKeys(gateway)
  return new TellingServer(data, gateway, listen(gateway, '127.0.0.1', 0), {
    management_key: keys?.management_key ?? '',
    inference_key: keys?.inference_key ?? '',
  })
}

/** Reads the entries of a listener until one is of this type, and returns all of them. */
export async function readUntil(
  batches: AsyncIterator<string[]>,
  type: ActivityEntry['type'],
): Promise<ActivityEntry[]> {
  const entries: ActivityEntry[] = []
  while (!entries.some(entry => entry.type === type)) {
    const { done, value } = await batches.next()
    if (done) throw new Error(`The feed ended before ${type}`)
    entries.push(...value.map((json: string) => JSON.parse(json)))
  }
  return entries
}

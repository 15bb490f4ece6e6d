import { type Gateway, type GatewayParts, openGateway } from '../../src/app/gateway.ts'
import { type Config, parseConfig } from '../../src/config.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { buildDefaultWorkspace } from '../../src/resources/workspaces.ts'
import { SHARED_WORKERS } from './workers.ts'

/** A clock that stands still until it is moved. */
export class TestClock {
  #now: number
  #ticks = 0

  constructor(at = '2026-03-04T05:06:07.000Z') {
    this.#now = Date.parse(at)
  }

  now = () => new Date(this.#now)
  ticks = () => this.#ticks

  /** Advances by this many milliseconds. */
  pass(milliseconds: number): void {
    this.#now += milliseconds
    this.#ticks += milliseconds
  }
}

/** Creates a source of ids that count up, after a number of used ones. */
export function createCountedIds(used = 0) {
  let count = used
  const next = () => (++count).toString()
  return {
    uuid: () => `00000000-0000-7000-8000-${next().padStart(12, '0')}`,
    generation: (now: Date) =>
      `gen-${Math.floor(now.getTime() / 1000)}-${next().padStart(20, '0')}`,
    secret: () => next().padStart(64, '0'),
  }
}

/**
 * Opens a gateway in memory: a fixed clock, counted ids, no randomness and the sandbox, by default.
 */
export async function testGateway(
  replace: Partial<Omit<GatewayParts, 'config'>> & { config?: Record<string, unknown> } = {},
): Promise<Gateway> {
  const { config, ...rest } = replace
  const parsed: { config?: Config } = config
    ? { config: parseConfig(JSON.stringify(config), {}) }
    : {}
  return openGateway({
    clock: new TestClock(),
    ids: createCountedIds(),
    random: () => 0,
    ...SHARED_WORKERS,
    ...rest,
    ...parsed,
  })
}

/** Creates a key of each kind and returns the plaintexts. */
export async function createTestKeys(gateway: Gateway) {
  const management = await createKey(
    gateway,
    getOperator(gateway),
    { name: 'management' },
    'management',
  )
  const inference = await createKey(gateway, getOperator(gateway), { name: 'inference' })
  return { management: management.key, inference: inference.key, hash: inference.data.hash }
}

/** Creates a second workspace, `other`, that is not a default one, and a key in it. */
export async function createOtherWorkspace(
  gateway: Gateway,
  id: string,
  kind: 'management' | 'inference' = 'management',
  slug = 'other',
) {
  const workspace = {
    ...buildDefaultWorkspace(id, 'user_2', gateway.clock.now()),
    slug,
    is_default: false,
  }
  await gateway.store.workspaces.insertIfAbsent(workspace)
  gateway.memory.workspaces.set(workspace)
  return createKey(gateway, getOperator(gateway), { name: 'other', workspace_id: id }, kind)
}

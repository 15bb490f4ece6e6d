import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { type Config, createDefaultConfig } from '../../../src/config.ts'
import { SandboxPool } from '../../../src/network/sandboxes/pool.ts'
import { FakeSandbox } from '../../support/sandboxes/fake.ts'

const configure = (sandbox: object): Pick<Config, 'sandbox'> => ({
  sandbox: { ...createDefaultConfig().sandbox, kind: 'just-bash', ...sandbox },
})

/** What is put off until the event loop is free has been done. */
const idle = () => new Promise<void>(resolve => setImmediate(resolve))

describe('a pool of sandboxes', () => {
  let sandbox: FakeSandbox
  let pool: SandboxPool
  let world: { config: Pick<Config, 'sandbox'>; sandboxes: FakeSandbox[] }
  beforeEach(() => {
    sandbox = new FakeSandbox()
    pool = new SandboxPool()
    world = { config: configure({ ready: 2 }), sandboxes: [sandbox] }
  })
  afterEach(() => pool.close())

  const fill = async () => {
    pool.fill(world)
    await pool.settle()
  }

  test('has none before it is filled, and as many as the config says afterwards', async () => {
    expect(pool.take(world)).toBeUndefined()
    await idle()
    expect(sandbox.boxes).toEqual([])
    await fill()
    await fill()
    expect([pool.size, sandbox.boxes.length]).toEqual([2, 2])
  })

  test('hands each out once, with the limits of the config, and starts others', async () => {
    await fill()
    const taken = [pool.take(world), pool.take(world), pool.take(world)]
    expect(taken).toEqual([sandbox.boxes[0], sandbox.boxes[1], undefined])
    // Whoever takes one does not wait for its successor.
    expect(sandbox.boxes).toHaveLength(2)
    await idle()
    await pool.settle()
    expect([pool.size, sandbox.boxes.length]).toEqual([2, 4])
    expect(sandbox.boxes[3]?.limits.processes).toBe(world.config.sandbox.processes)
    expect(sandbox.boxes[3]?.network).toBeUndefined()
  })

  test('never has more than its bound, however many take at once', async () => {
    await fill()
    for (let i = 0; i < 50; i++) pool.take(world)
    await idle()
    await pool.settle()
    expect([pool.size, sandbox.boxes.length]).toEqual([2, 4])
  })

  test('follows the config: its bound, its limits, its kind', async () => {
    pool.refill(world)
    expect(sandbox.boxes).toEqual([])
    await fill()
    const change = async (settings: object) => {
      world.config = configure(settings)
      pool.refill(world)
      await pool.settle()
      return sandbox.open_boxes.length
    }
    expect(await change({ ready: 3 })).toBe(3)
    expect(await change({ ready: 1 })).toBe(1)
    expect(await change({ ready: 1, processes: 5 })).toBe(1)
    expect(sandbox.open_boxes.map(({ limits }) => limits.processes)).toEqual([5])
    expect(await change({ ready: 0 })).toBe(0)
    expect(await change({ ready: 2 })).toBe(2)
    expect(await change({ ready: 2, kind: false })).toBe(0)
  })

  test('gives none with the limits of an older config', async () => {
    await fill()
    world.config = configure({ ready: 2, home_mib: 1 })
    expect(pool.take(world)).toBeUndefined()
    await idle()
    await pool.settle()
    expect(pool.take(world)?.isGone).toBe(false)
    expect(sandbox.open_boxes.map(({ limits }) => limits.homeBytes)).toEqual([1, 1].map(MIB))
  })

  test('gives none that has ended', async () => {
    await fill()
    await sandbox.boxes[0]?.close()
    expect(pool.take(world)).toBe(sandbox.boxes[1])
    expect(pool.take(world)).toBeUndefined()
  })

  test('starts none that does not hold here, and tries again what does not start', async () => {
    sandbox.obstacle = 'it needs Linux'
    await fill()
    expect([pool.size, sandbox.boxes]).toEqual([0, []])
    sandbox.obstacle = null
    const open = sandbox.open
    sandbox.open = () => Promise.reject(new Error('no memory'))
    await fill()
    expect(pool.size).toBe(0)
    sandbox.open = open
    expect(pool.take(world)).toBeUndefined()
    await idle()
    await pool.settle()
    expect(pool.size).toBe(2)
  })

  test('is ended as a whole, with what is being started', async () => {
    await fill()
    pool.take(world)
    await idle()
    const [taken] = sandbox.boxes
    await pool.close()
    await pool.settle()
    expect(sandbox.open_boxes).toEqual(taken ? [taken] : [])
    pool.fill(world)
    await pool.settle()
    expect([pool.size, sandbox.open_boxes.length]).toEqual([0, 1])
  })
})

const MIB = (count: number) => count * 1024 * 1024

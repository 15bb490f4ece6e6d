import { describe, expect, test } from 'bun:test'
import { Room } from '../../src/base/room.ts'

const NEVER = 1_000_000_000

describe('a room', () => {
  test('has no more inside than places, and lets in who came first', async () => {
    const room = new Room(2, NEVER)
    const order: number[] = []
    const [one, two] = await Promise.all([room.enter(), room.enter()])
    const waiting = [3, 4].map(async name => {
      const leave = await room.enter()
      order.push(name)
      return leave
    })
    expect(room.size).toBe(2)
    one?.()
    await waiting[0]
    expect([room.size, order]).toEqual([2, [3]])
    two?.()
    const leaves = await Promise.all(waiting)
    expect(order).toEqual([3, 4])
    for (const leave of leaves) leave()
    expect(room.size).toBe(0)
  })

  test('gives a place back once, however often that is said', async () => {
    const room = new Room(1, NEVER)
    const leave = await room.enter()
    const next = room.enter()
    leave()
    leave()
    await next
    expect(room.size).toBe(1)
  })

  test('lets in who has waited for long', async () => {
    const room = new Room(1, 1)
    await room.enter()
    await room.enter()
    expect(room.size).toBe(2)
  })
})

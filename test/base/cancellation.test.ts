import { describe, expect, test } from 'bun:test'
import { Cancellation } from '../../src/base/cancellation.ts'
import { GatewayError } from '../../src/base/errors.ts'

describe('Cancellation', () => {
  const reason = (message: string) => new GatewayError('timeout', message)

  test('calls its listener once, with the first reason', () => {
    const told: string[] = []
    const cancellation = new Cancellation()
    cancellation.listen(({ message }) => told.push(message))
    cancellation.cancel(reason('first'))
    cancellation.cancel(reason('second'))
    expect([told, cancellation.reason?.message]).toEqual([['first'], 'first'])
  })

  test('calls a late listener at once, and a removed listener never', () => {
    const told: string[] = []
    const cancellation = new Cancellation()
    cancellation.listen(() => told.push('left'))
    cancellation.listen(null)
    cancellation.cancel(reason('x'))
    cancellation.listen(() => told.push('late'))
    expect(told).toEqual(['late'])
  })

  test('returns the result of work that ends first, and stops listening', async () => {
    const cancellation = new Cancellation()
    const work = Promise.withResolvers<string>()
    expect(await cancellation.awaitUnlessCancelled(Promise.resolve('done'))).toBe('done')
    const waiting = cancellation.awaitUnlessCancelled(work.promise).catch(thrown => thrown.message)
    cancellation.cancel(reason('left'))
    expect(await waiting).toBe('left')
    expect(
      await cancellation.awaitUnlessCancelled(work.promise).catch(thrown => thrown.message),
    ).toBe('left')
    const told: string[] = []
    cancellation.listen(({ message }) => told.push(message))
    expect(told).toEqual(['left'])
  })

  test('creates branches that are cancelled with it, but do not cancel it', () => {
    const cancellation = new Cancellation()
    const [first, second] = cancellation.createBranches(2)
    first?.cancel(reason('first'))
    expect([cancellation.reason, second?.reason]).toEqual([null, null])
    cancellation.cancel(reason('all'))
    expect([first?.reason?.message, second?.reason?.message]).toEqual(['first', 'all'])
    expect(cancellation.createBranches(1)[0]?.reason?.message).toBe('all')
  })
})

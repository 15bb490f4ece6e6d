import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/core/errors.ts'
import { Cancellation } from '../../../src/core/kernel/cancellation.ts'

describe('Cancellation', () => {
  const reason = (message: string) => new GatewayError('timeout', message)

  test('tells its listener once, with the first reason', () => {
    const told: string[] = []
    const cancellation = new Cancellation()
    cancellation.listen(({ message }) => told.push(message))
    cancellation.cancel(reason('first'))
    cancellation.cancel(reason('second'))
    expect([told, cancellation.reason?.message]).toEqual([['first'], 'first'])
  })

  test('tells a listener that comes too late at once, and one that has left nothing', () => {
    const told: string[] = []
    const cancellation = new Cancellation()
    cancellation.listen(() => told.push('left'))
    cancellation.listen(null)
    cancellation.cancel(reason('x'))
    cancellation.listen(() => told.push('late'))
    expect(told).toEqual(['late'])
  })
})

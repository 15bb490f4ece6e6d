import { describe, expect, test } from 'bun:test'
import { openEvents } from '../../src/base/events.ts'

describe('events', () => {
  test('reach every listener in order, whatever another listener does', () => {
    const events = openEvents()
    const told: string[] = []
    events.on('store.failing', () => told.push('first'))
    events.on('store.failing', () => {
      throw new Error('mine')
    })
    events.on('store.failing', () => told.push('last'))
    events.publish('store.failing', { error: 'x' })
    events.publish('generation.finished', {} as never)
    expect(told).toEqual(['first', 'last'])
  })
})

import { expect, test } from 'bun:test'
import { LargeAnswers } from '../../../src/engine/traffic/large-answers.ts'

test('memory is collected for every fourth answer that is over, and never for the first', async () => {
  let collections = 0
  const room = new LargeAnswers(() => {
    collections += 1
  })
  const counts: number[] = []
  for (let i = 0; i < 10; i++) {
    const leave = await room.enter()
    counts.push(collections)
    leave()
    leave()
  }
  expect(counts).toEqual([0, 0, 0, 0, 1, 1, 1, 1, 2, 2])
})

test('four are inside at once', async () => {
  const room = new LargeAnswers(() => undefined)
  const [leave] = await Promise.all(Array.from({ length: 4 }, () => room.enter()))
  let isInside = false
  const fifth = room.enter().then(() => {
    isInside = true
  })
  await Promise.resolve()
  expect(isInside).toBe(false)
  leave?.()
  await fifth
})

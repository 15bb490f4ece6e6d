import { expect, test } from 'bun:test'
import type { ToolUse } from '../../../src/extensions/server-tool/use.ts'
import { ShownProgress } from '../../../src/extensions/server-tool/uses.ts'
import type { ToolInvocation } from '../../../src/extensions/server-tool.ts'

const follow = (progress: ShownProgress, id: string, hasEnded = () => false) => {
  const invocation = {} as ToolInvocation
  progress.follow({ invocation, call: { id }, result: null } as ToolUse, hasEnded)
  return invocation
}

test('a client that does not read is kept one piece of each text, however many come', () => {
  const progress = new ShownProgress()
  const [one, two] = [follow(progress, 'a'), follow(progress, 'b')]
  for (let i = 0; i < 1_000; i++)
    for (const model of ['acme/x', 'acme/y']) {
      one.show?.({ type: 'panel-text', model, text: 'a' })
      one.show?.({ type: 'panel-reasoning', model, text: 'b' })
      two.show?.({ type: 'text', text: 'c' })
    }
  one.show?.({ type: 'panel-end', model: 'acme/x', text: 'whole' })
  one.show?.({ type: 'panel-end', model: 'acme/y', text: 'whole' })
  const parts = progress.take()
  expect(parts).toHaveLength(7)
  expect(parts[0]).toMatchObject({
    id: 'a',
    progress: { model: 'acme/x', text: 'a'.repeat(1_000) },
  })
  expect(parts[2]).toMatchObject({ id: 'b', progress: { text: 'c'.repeat(2_000) } })
  expect(parts.slice(-2)).toMatchObject([
    { progress: { type: 'panel-end', model: 'acme/x' } },
    { progress: { type: 'panel-end', model: 'acme/y' } },
  ])
  expect(progress.take()).toEqual([])
})

test('a use that has ended shows nothing more, and one that does not run shows nothing', () => {
  const progress = new ShownProgress()
  let hasEnded = false
  const use = follow(progress, 'a', () => hasEnded)
  hasEnded = true
  use.show?.({ type: 'text', text: 'late' })
  expect(progress.take()).toEqual([])
  const refused = { invocation: null, call: { id: 'b' }, result: null } as unknown as ToolUse
  expect(() => progress.follow(refused, () => false)).not.toThrow()
})

test('who waits is woken by what comes, and by an end', async () => {
  const progress = new ShownProgress()
  const use = follow(progress, 'a')
  const first = progress.wait()
  use.show?.({ type: 'text', text: 'a' })
  await first
  const second = progress.wait()
  progress.wake()
  await second
  expect(progress.take()).toHaveLength(1)
})

import { expect, test } from 'bun:test'
import { Cancellation } from '../../src/base/cancellation.ts'
import { askSandbox } from '../../src/network/sandbox.ts'
import { readThreadCpu } from '../support/cpu.ts'

/** Returns what the echo says to a prompt. */
async function echo(content: string): Promise<string> {
  const messages = [{ role: 'user', content }]
  const response = await askSandbox(
    '/chat/completions',
    { model: 'echo', messages },
    new Cancellation(),
  )
  const answer = (await response.json()) as { choices: { message: { content: string } }[] }
  return answer.choices[0]?.message.content ?? ''
}

test('the echo keeps blanks before words, and none after the last', async () => {
  expect(await echo('  one\n\ntwo\tthree \u00a0 ')).toBe('  one\n\ntwo\tthree')
})

test('the echo of nothing but blanks, or of blanks after a word, holds up nobody', async () => {
  const blanks = ' '.repeat(64 * 1024)
  for (const text of [blanks, `one${blanks}`, `${blanks}one`]) {
    const startedAt = readThreadCpu()
    await echo(text)
    // It took four seconds: no connection waits for a quarter of one.
    expect(readThreadCpu() - startedAt).toBeLessThan(250)
  }
})

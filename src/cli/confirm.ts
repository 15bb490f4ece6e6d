import { createInterface } from 'node:readline/promises'
import { invalid } from '../base/errors.ts'
import { toPrintable } from '../base/printable.ts'

/**
 * Asks on the terminal whether to go on. Returns false unless the answer is yes, and also where the
 * input ends. Throws 400 without a terminal: the command then needs `--yes`.
 */
export async function confirm(question: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw invalid(`${question} There is no terminal to ask on: --yes answers yes`)
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  const ended = new Promise<string>(resolve => terminal.once('close', () => resolve('')))
  try {
    const answer = await Promise.race([terminal.question(`${toPrintable(question)} [y/N] `), ended])
    return /^y(es)?$/i.test(answer.trim())
  } finally {
    terminal.close()
  }
}

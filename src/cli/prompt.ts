import { invalid } from '../base/errors.ts'

/**
 * Reads a secret: typed on a terminal without echo, or piped to its end. Space around it is
 * ignored. Throws `invalid_request` where there is none.
 */
export async function readSecret(question: string): Promise<string> {
  const text = process.stdin.isTTY ? await askWithoutEcho(question) : await Bun.stdin.text()
  const secret = text.trim()
  if (secret === '') throw invalid(`${question}: expected it on standard input, found nothing`)
  return secret
}

// A raw terminal hands every key to the program, and shows none.
async function askWithoutEcho(question: string): Promise<string> {
  process.stdin.setRawMode(true)
  try {
    process.stderr.write(`${question}: `)
    return await readTypedLine()
  } finally {
    process.stdin.setRawMode(false)
    process.stdin.pause()
    process.stderr.write('\n')
  }
}

// Not by iteration: that would close standard input for the next question.
async function readTypedLine(): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const decoder = new TextDecoder()
  let typed = ''
  const take = (bytes: Uint8Array) => {
    for (const key of decoder.decode(bytes, { stream: true })) {
      if (key === CANCEL) return reject(new Error('cancelled'))
      if (LINE_ENDS.includes(key)) return resolve(typed)
      typed = key === BACKSPACE || key === DELETE ? typed.slice(0, -1) : typed + key
    }
  }
  const end = () => resolve(typed)
  process.stdin.on('data', take).once('end', end).resume()
  try {
    return await promise
  } finally {
    process.stdin.off('data', take).off('end', end)
  }
}

const CANCEL = '\u0003'
const LINE_ENDS = ['\r', '\n', '\u0004']
const BACKSPACE = '\b'
const DELETE = '\u007f'

/** Whether somebody can be asked: there is a terminal to type on and one to read on. */
export const canAsk = (): boolean => process.stdin.isTTY === true && process.stderr.isTTY === true

/**
 * Asks for a line on the terminal, where Enter alone means `initial`. Throws where the input ends,
 * or is cancelled, before there is one.
 */
export async function askLine(question: string, initial: string): Promise<string> {
  const { createInterface } = await import('node:readline/promises')
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  const ended = new Promise<never>((_, reject) =>
    terminal.once('close', () => reject(new Error('cancelled'))),
  )
  try {
    const line = await Promise.race([terminal.question(`${question} [${initial}] `), ended])
    return line.trim() === '' ? initial : line.trim()
  } finally {
    ended.catch(() => undefined)
    terminal.close()
  }
}

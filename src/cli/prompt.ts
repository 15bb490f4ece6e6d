import { invalid } from '../core/errors.ts'

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

async function readTypedLine(): Promise<string> {
  let typed = ''
  for await (const bytes of process.stdin) {
    for (const key of new TextDecoder().decode(bytes as Uint8Array)) {
      if (key === CANCEL) throw new Error('cancelled')
      if (LINE_ENDS.includes(key)) return typed
      typed = key === BACKSPACE || key === DELETE ? typed.slice(0, -1) : typed + key
    }
  }
  return typed
}

const CANCEL = '\u0003'
const LINE_ENDS = ['\r', '\n', '\u0004']
const BACKSPACE = '\b'
const DELETE = '\u007f'

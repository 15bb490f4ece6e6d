import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SHARED } from './shared.ts'

/** Answers of real providers. */
const RECORDINGS = join(SHARED, 'recordings')

/** Whether the recordings are on this machine. */
export const hasRecordings = existsSync(RECORDINGS)

/** One answer of a real provider. */
export interface Recording {
  /** The protocol, as a config names it. */
  protocol: string
  /** The provider's own client that it was recorded for: `@ai-sdk/<package>`. */
  package: string
  case: string
  /** The package and the case: unique within the protocol and mode. */
  name: string
  mode: Mode
  /** A whole answer's body, or the JSON of each event of a streamed one. */
  lines: string[]
}

export type Mode = 'whole' | 'streamed'

/** The protocols that answer with text. The other recordings are of other kinds of work. */
export const TEXT_PROTOCOLS = [
  'openai-chat',
  'anthropic-messages',
  'gemini',
  'bedrock-converse',
  'cohere-chat',
  'openai-responses',
] as const

/** Recordings in the folder of another protocol: DeepSeek at Azure answers in chat completions. */
const SPOKEN: Record<string, string> = { 'azure__azure-deepseek-reasoning.1': 'openai-chat' }

/** Lists every recording of these protocols by name; none if they are not on this machine. */
export const listRecordings = (...protocols: string[]): Recording[] =>
  (hasRecordings ? TEXT_PROTOCOLS : [])
    .flatMap(folder =>
      readdirSync(join(RECORDINGS, folder)).map(file => readRecording(folder, file)),
    )
    .filter(recording => recording !== null)
    .filter(recording => protocols.includes(recording.protocol))
    .sort((a, b) => order(a).localeCompare(order(b)))

const order = ({ protocol, name, mode }: Recording) => `${protocol} ${name} ${mode}`

const ENDINGS: Record<Mode, string> = { whole: '.json', streamed: '.chunks.txt' }

function readRecording(folder: string, file: string): Recording | null {
  const mode = file.endsWith(ENDINGS.whole)
    ? 'whole'
    : file.endsWith(ENDINGS.streamed)
      ? 'streamed'
      : null
  if (!mode) return null
  const name = file.slice(0, -ENDINGS[mode].length)
  const [from = '', ...rest] = name.split('__')
  const text = readFileSync(join(RECORDINGS, folder, file), 'utf8')
  const protocol = SPOKEN[name] ?? folder
  return {
    protocol,
    package: from,
    case: rest.join('__'),
    name,
    mode,
    lines: mode === 'whole' ? [text] : cutFirstAnswer(readEvents(text)),
  }
}

const readEvents = (text: string) =>
  text
    .split('\n')
    .filter(line => line.trim() !== '')
    .map(repairLine)

// Two lines of one recording lack their last brace.
function repairLine(line: string): string {
  try {
    JSON.parse(line)
    return line
  } catch {
    return `${line}}`
  }
}

/** The types of events that end an answer, in the protocols whose events have a `type`. */
const TERMINAL = new Set([
  'message_stop',
  'response.completed',
  'response.incomplete',
  'response.failed',
])

// Some recordings contain several answers of one conversation. A provider sends one.
function cutFirstAnswer(events: string[]): string[] {
  const end = events.findIndex(event => TERMINAL.has(JSON.parse(event).type))
  return end === -1 ? events : events.slice(0, end + 1)
}

/** Builds the models of recordings, without duplicates for whole and streamed recordings. */
export const buildModels = <Model extends { id: string }>(
  recordings: Recording[],
  modelOf: (recording: Recording) => Model,
): Model[] => [...new Map(recordings.map(modelOf).map(model => [model.id, model])).values()]

import { createTracedCall } from '../trace/call.ts'
import { countEntries, createReport, type Trace } from '../trace/report.ts'
import { traceCalls } from '../trace/run.ts'
import { PLANNING } from '../trace/tracer.ts'

/** What a reader of one call has to follow. */
export interface CallFigures {
  files: number
  /** How often a function was entered in another file than the one before it. */
  changes: number
  functions: number
  entries: number
}

/** The figures of the calls that everything else is compared with. */
export interface CallsFigures {
  chat: CallFigures & {
    /** Files that are entered only to hear that there is nothing to do. */
    idle_files: number
  }
  chat_streamed: CallFigures
  keys_create: CallFigures
  /** For one message more of a conversation, and for one chunk more of a stream. */
  message: Pick<CallFigures, 'entries'>
  chunk: Pick<CallFigures, 'entries' | 'changes'>
}

/** How often each call is traced. */
const TIMES = 6
const MORE = 100
const CHUNKS = 3

/** Traces a plain call, and no other. To be called before anything of the program is loaded. */
export async function measurePlainCall(): Promise<{ chat: CallFigures }> {
  const [chat] = await traceCalls([createTracedCall({})], PLANNING, TIMES)
  if (!chat) throw new Error('The trace is missing')
  return { chat: measureCall(chat) }
}

/** Traces the calls. To be called before anything of the program is loaded. */
export async function measureCalls(): Promise<CallsFigures> {
  const [chat, long, streamed, longStreamed, keys] = await traceCalls(
    [
      createTracedCall({}),
      createTracedCall({ turns: 1 + MORE }),
      createTracedCall({ stream: true, chunks: CHUNKS }),
      createTracedCall({ stream: true, chunks: CHUNKS + MORE }),
      createTracedCall({ keys: true }),
    ],
    PLANNING,
    TIMES,
  )
  if (!chat || !long || !streamed || !longStreamed || !keys) throw new Error('A trace is missing')
  const [one, two] = [countEntries(streamed.entries), countEntries(longStreamed.entries)]
  return {
    chat: { ...measureCall(chat), idle_files: countIdleFiles(chat) },
    chat_streamed: measureCall(streamed),
    keys_create: measureCall(keys),
    message: { entries: toShare(long.entries.length - chat.entries.length) },
    chunk: {
      entries: toShare(two.entries - one.entries),
      changes: toShare(two.changes - one.changes),
    },
  }
}

function measureCall(trace: Trace): CallFigures {
  const { files, changes, functions, entries } = createReport(trace, PLANNING).whole
  return { files, changes, functions, entries }
}

const toShare = (more: number): number => Math.round((10 * more) / MORE) / 10

/**
 * The files that a plain call enters to hear that there is nothing to do, listed by hand. They
 * become the folder of extensions, which a plain call does not enter.
 */
const IDLE: readonly string[] = [
  'server/idempotency',
  'server/routes/inference/caching',
  ...['catalog/byok', 'catalog/byok/decrypted-keys'].map(name =>
    name.replace('catalog', 'resources'),
  ),
  ...['opened', 'operator', 'subscribers'].map(name => `observability/destinations/${name}`),
  ...['chat/server-tool-details', 'server-tools'].map(name => `translation/dialects/${name}`),
  ...['enrich', 'filters', 'media', 'plugin-defaults', 'plugin', 'prepare']
    .concat(['server-tool/approved', 'server-tool/offer', 'stored-files', 'broadcast'])
    .concat(['videos/start'])
    .map(name => `extensions/${name}`),
  ...['custom-tools', 'native-items', 'web-search'].map(name => `engine/kinds/text/${name}`),
  'language/routing',
  ...['bodybuilder-router', 'context-compression', 'file-parser', 'fusion', 'routers', 'web']
    .concat(['web/choose-searcher'])
    .map(name => `extensions/plugins/${name}`),
  ...['outbox', 'outbox/bundling'].map(name => `store/sqlite/${name}`),
]

const countIdleFiles = ({ entries }: Trace): number => {
  const entered = new Set(entries.map(({ file }) => file))
  return IDLE.filter(name => entered.has(`src/${name}.ts`)).length
}

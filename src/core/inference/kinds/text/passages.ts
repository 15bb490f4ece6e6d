import { dataUrl, isDataUrl, textOf } from '../../../kernel/data-url.ts'
import { isObject, parseExact } from '../../../kernel/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Block, Role, Turn } from '../../../language/message.ts'
import type { Passage, Reword } from '../../../language/passage.ts'
import type { Tool } from '../../../language/tool.ts'

/**
 * The call with other words in the place of every text that somebody may have typed: what was said, by whom, the arguments and results of
 * tools, what a prediction, a form or a tool's description says, files of text, addresses. Pictures, sounds and other files are not
 * looked into. The call handed in stays as it is.
 */
export async function reworded(call: TextCall, reword: Reword): Promise<TextCall> {
  const { prediction, response_format } = call.params
  return {
    ...call,
    turns: await inOrder(call.turns, turn => rewordedTurn(turn, reword)),
    tools: await inOrder(call.tools, tool => rewordedValue<Tool>(tool, 'system', reword)),
    extra: await rewordedValue(call.extra, 'user', reword),
    params: {
      ...call.params,
      ...(prediction === undefined ? {} : { prediction: await rewordedValue(prediction, 'assistant', reword) }),
      ...(response_format === undefined ? {} : { response_format: await rewordedValue(response_format, 'system', reword) }),
    },
  }
}

async function rewordedTurn(turn: Turn, reword: Reword): Promise<Turn> {
  const blocks = await rewordedBlocks(turn.blocks, turn.role, reword)
  const name = turn.name === undefined ? {} : { name: await rewordedText(turn.name, turn.role, reword) }
  const extra = turn.extra === undefined ? {} : { extra: await rewordedValue(turn.extra, turn.role, reword) }
  return { ...turn, blocks, ...name, ...extra }
}

/** What stands in several blocks of text is read as one, since whoever answers reads it so. */
export async function rewordedBlocks(blocks: Block[], role: Role, reword: Reword): Promise<Block[]> {
  const texts = blocks.filter(block => block.type === 'text')
  const words = texts.length === 0 ? [] : await reword({ role, pieces: texts.map(({ text }) => text), isJson: false })
  const wordsOf = new Map<Block, string>(texts.map((block, i) => [block, words[i] ?? '']))
  return inOrder(blocks, block => rewordedBlock(block, wordsOf.get(block) ?? '', role, reword))
}

async function rewordedBlock(block: Block, words: string, role: Role, reword: Reword): Promise<Block> {
  switch (block.type) {
    case 'text':
      return withExtra({ ...block, text: words }, role, reword)
    case 'refusal':
      return { ...block, text: await rewordedText(block.text, role, reword) }
    case 'tool-call':
      return withExtra({ ...block, input: await rewordedJson(block.input, role, reword) }, role, reword)
    case 'reasoning':
      return rewordedThought(block, role, reword)
    case 'image':
    case 'video':
      return withExtra({ ...block, url: await rewordedAddress(block.url, role, reword) }, role, reword)
    case 'file':
      return withExtra({ ...block, file: await rewordedFile(block.file, role, reword) }, role, reword)
    case 'other':
      return { ...block, value: await rewordedValue(block.value, role, reword) }
    case 'audio':
      return block
  }
}

async function withExtra<B extends { extra?: Record<string, unknown> }>(block: B, role: Role, reword: Reword): Promise<B> {
  return block.extra === undefined ? block : { ...block, extra: await rewordedValue(block.extra, role, reword) }
}

type Thought = Extract<Block, { type: 'reasoning' }>

// A signature is of the words that were signed: with others it would be refused, and so it goes.
async function rewordedThought(block: Thought, role: Role, reword: Reword): Promise<Thought> {
  const text = block.text === null ? null : await rewordedText(block.text, role, reword)
  const details = block.details && (await inOrder(block.details, detail => rewordedDetail(detail, role, reword)))
  return { ...block, text, details }
}

async function rewordedDetail<D extends Record<string, unknown>>(detail: D, role: Role, reword: Reword): Promise<D> {
  const { text, summary } = detail
  const said = typeof text === 'string' ? await rewordedText(text, role, reword) : text
  const told = typeof summary === 'string' ? await rewordedText(summary, role, reword) : summary
  if (said === text && told === summary) return detail
  const { signature: _, ...rest } = detail
  return { ...rest, ...(said === undefined ? {} : { text: said }), ...(told === undefined ? {} : { summary: told }) } as unknown as D
}

type File = Extract<Block, { type: 'file' }>['file']

async function rewordedFile(file: File, role: Role, reword: Reword): Promise<File> {
  const { filename, file_data } = file
  return {
    ...file,
    ...(filename === undefined ? {} : { filename: await rewordedText(filename, role, reword) }),
    ...(file_data === undefined ? {} : { file_data: await rewordedAddress(file_data, role, reword) }),
  }
}

/** An address, or a file of text in a data URL; whatever else a data URL holds stays as it is. */
async function rewordedAddress(url: string, role: Role, reword: Reword): Promise<string> {
  if (!isDataUrl(url)) return rewordedText(url, role, reword)
  if (!/^data:(?:text\/|application\/(?:json|xml|yaml|x-yaml|x-ndjson|javascript|[\w.-]+\+(?:json|xml))|[,;])/i.test(url.slice(0, 200)))
    return url
  const media = dataUrl(url)
  const text = textOf(media)
  const words = await (media.media_type.endsWith('json') ? rewordedJson : rewordedText)(text, role, reword)
  return words === text ? url : `data:${media.media_type};base64,${Buffer.from(words).toString('base64')}`
}

/** The texts in a value that we have no word for. */
async function rewordedValue<V>(value: V, role: Role, reword: Reword): Promise<V> {
  if (!Array.isArray(value) && !(isObject(value) && Object.keys(value).length > 0) && typeof value !== 'string') return value
  const json = JSON.stringify(value)
  const words = await rewordedJson(json, role, reword)
  return words === json ? value : (parseExact(words) as V)
}

const rewordedText = async (text: string, role: Role, reword: Reword): Promise<string> => first(await reword(passage(text, role, false)))
const rewordedJson = async (json: string, role: Role, reword: Reword): Promise<string> => first(await reword(passage(json, role, true)))

const passage = (text: string, role: Role, isJson: boolean): Passage => ({ role, pieces: [text], isJson })
const first = ([piece = '']: string[]): string => piece

/** One after the other, so that what is found is told in the order of the call. */
async function inOrder<T>(items: T[], change: (item: T) => Promise<T>): Promise<T[]> {
  const changed: T[] = []
  for (const item of items) changed.push(await change(item))
  return changed
}

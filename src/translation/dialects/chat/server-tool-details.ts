import { readString } from '../../../base/json.ts'
import type { Block, Message } from '../../../language/message.ts'
import type { ServerToolOutcome, ServerToolUse } from '../../../language/part.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'

/** The type of an entry that holds a use of a tool of the gateway (wire reference C.2). */
const TYPE = 'reasoning.server_tool_call'

/** Whether an entry is a use of a tool of the gateway and no thought. */
const isServerToolDetail = ({ type }: ReasoningDetail): boolean => type === TYPE

/** Converts a use of one of the gateway's own tools into the form in which clients send it back. */
export const toServerToolDetail = ({
  requestedAs,
  tool,
  name,
  id,
  input,
  output,
}: ServerToolUse & ServerToolOutcome): ReasoningDetail => ({
  type: TYPE,
  // A tool of several functions is known by the one that was called.
  tool_name: name === tool ? requestedAs : name,
  arguments: input,
  result: output,
  tool_call_id: id,
  format: 'unknown',
})

/**
 * Divides a message that a client sends back at the uses of tools in it, so that the model sees what
 * it called and what it got. Providers have no other form for them. Where the call offers no tools,
 * providers take no calls of them either, and they are left out.
 */
export function restoreToolUses(message: Message, offersTools: boolean): Message[] {
  const at = message.blocks.findIndex(
    block => block.type === 'reasoning' && block.details?.some(isServerToolDetail),
  )
  const block = message.blocks[at]
  if (block?.type !== 'reasoning') return [message]
  const { before, groups, rest } = divide(block.details ?? [])
  const text = groups.length === 0 ? block.text : null
  const own = {
    ...message,
    blocks: [...toReasoning(text, rest), ...message.blocks.toSpliced(at, 1)],
  }
  if (!offersTools) return [{ ...own, blocks: [...toReasoning(block.text, before), ...own.blocks] }]
  return [...groups.flatMap(toMessages), own]
}

/** Thoughts, and the uses that follow them. */
interface Group {
  thoughts: ReasoningDetail[]
  uses: ReasoningDetail[]
}

/** Divides entries into groups. `before` are the thoughts of all groups, `rest` those after. */
function divide(details: ReasoningDetail[]) {
  const groups: Group[] = []
  let thoughts: ReasoningDetail[] = []
  for (const detail of details) {
    const last = groups.at(-1)
    if (!isServerToolDetail(detail)) thoughts.push(detail)
    else if (last && thoughts.length === 0) last.uses.push(detail)
    else {
      groups.push({ thoughts, uses: [detail] })
      thoughts = []
    }
  }
  return { groups, before: groups.flatMap(group => group.thoughts), rest: thoughts }
}

const toReasoning = (text: string | null, details: ReasoningDetail[]): Block[] =>
  text === null && details.length === 0
    ? []
    : [{ type: 'reasoning', text, details: details.length > 0 ? details : null }]

function toMessages({ thoughts, uses }: Group): Message[] {
  const calls = uses.map((use, i) => toCall(use, i))
  return [
    { role: 'assistant', blocks: [...toReasoning(null, thoughts), ...calls] },
    ...uses.map(
      (use, i): Message => ({
        role: 'tool',
        tool_call_id: calls[i]?.id ?? '',
        blocks: [{ type: 'text', text: readString(use.result) ?? '' }],
      }),
    ),
  ]
}

const toCall = (use: ReasoningDetail, i: number): Extract<Block, { type: 'tool-call' }> => {
  const name = readString(use.tool_name) ?? ''
  return {
    type: 'tool-call',
    id: readString(use.tool_call_id) ?? `server_tool_${i}`,
    name: name.slice(name.indexOf(':') + 1).replace(/[^\w-]/g, '_') || 'tool',
    input: readString(use.arguments) ?? '{}',
  }
}

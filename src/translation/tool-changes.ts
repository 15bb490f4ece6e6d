import { isObject, type Json, readObject, readString } from '../base/json.ts'
import type { TextCall } from '../language/call.ts'
import type { Block, Message } from '../language/message.ts'
import type { Tool } from '../language/tool.ts'
import { toTool } from './dialects/messages/request.ts'

/**
 * Returns the call with the tools that it has in the end, for models that know none of Anthropic's
 * `tool_addition` and `tool_removal`: system messages of a conversation that offer a tool from there
 * on, one of the call's own or one that is defined there, or take one away.
 */
export function applyToolChanges(call: TextCall): TextCall {
  if (call.dialect !== 'messages' || !call.messages.some(hasChange)) return call
  const offered = new Map<string, Tool>(
    call.tools.map((tool, i) => [readName(tool) ?? `${i}`, tool]),
  )
  const known = new Map(offered)
  for (const { blocks } of call.messages)
    for (const { value } of blocks.filter(isChange)) {
      const { name, definition } = readObject(value, 'tool')
      if (value.type === 'tool_removal') offered.delete(String(name))
      else if (!isObject(definition)) offer(offered, known.get(String(name)))
      else if (isTool(definition)) {
        known.set(definition.name, toTool(definition))
        offer(offered, known.get(definition.name))
      }
    }
  return { ...call, tools: [...offered.values()], messages: call.messages.flatMap(dropChanges) }
}

/** A tool that is offered again is the last one: what stood before it stays cached. */
function offer(offered: Map<string, Tool>, tool: Tool | undefined): void {
  const name = tool && readName(tool)
  if (tool && name && !offered.has(name)) offered.set(name, tool)
}

type ChangeBlock = Extract<Block, { type: 'other' }> & { value: Json }

const isChange = (block: Block): block is ChangeBlock =>
  block.type === 'other' &&
  isObject(block.value) &&
  (block.value.type === 'tool_addition' || block.value.type === 'tool_removal')

const hasChange = ({ role, blocks }: Message): boolean => role === 'system' && blocks.some(isChange)

function dropChanges(message: Message): Message[] {
  if (!hasChange(message)) return [message]
  const blocks = message.blocks.filter(block => !isChange(block))
  return blocks.length > 0 ? [{ ...message, blocks }] : []
}

const readName = (tool: Tool): string | null =>
  tool.type === 'function' ? tool.name : isObject(tool.value) ? readString(tool.value.name) : null

type MessagesTool = Parameters<typeof toTool>[0] & { name: string }

const isTool = (definition: Json): definition is MessagesTool =>
  typeof definition.name === 'string' &&
  (isObject(definition.input_schema) ||
    (typeof definition.type === 'string' && definition.type !== 'custom'))

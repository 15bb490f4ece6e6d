import type { Endpoint } from '../../catalog/models.ts'
import { isObject, member, objects, own } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block } from '../../language/message.ts'
import type { Tool } from '../../language/tool.ts'
import { isNative } from '../native.ts'
import { BETA_OF_PARAMETER, BETA_OF_TOOL, KNOWN_BETAS } from './betas.data.ts'
import { NATIVE } from './native.ts'

/** Whether this is Anthropic's own service, or stands for it. */
export const isAnthropic = ({ provider }: Endpoint): boolean =>
  provider.slug === 'anthropic' || /^https:\/\/([a-z0-9-]+\.)*anthropic\.com(\/|$)/i.test(provider.base_url)

const FILES = 'files-api-2025-04-14'
const COMPACTION = 'compact-2026-01-12'
const TASK_BUDGETS = 'task-budgets-2026-03-13'
const WELL_FORMED = /^[a-z0-9][a-z0-9-]{0,63}$/

/**
 * The features to ask for by header: the caller's, and those that the call has need of whether its caller knew it or not, as far
 * as this host knows them.
 */
export function betasOf(call: TextCall, endpoint: Endpoint): string[] {
  const wanted = new Set([...call.betas.filter(beta => WELL_FORMED.test(beta)), ...needed(call)])
  return isAnthropic(endpoint) ? [...wanted] : [...wanted].filter(beta => KNOWN_BETAS.has(beta))
}

function needed(call: TextCall): string[] {
  const betas = call.tools.flatMap(tool => betasOfTool(tool))
  if (call.turns.some(turn => turn.blocks.some(isKeptFile))) betas.push(FILES)
  return isNative(call, NATIVE) ? [...betas, ...neededByParameters(call)] : betas
}

function betasOfTool(tool: Tool): string[] {
  if (tool.type !== 'other' || !isNative(tool, NATIVE) || !isObject(tool.value)) return []
  const beta = own(BETA_OF_TOOL, tool.value.type)
  return beta === undefined ? [] : [beta]
}

// A picture that the provider keeps is a block of this API's own.
function isKeptFile(block: Block): boolean {
  if (block.type === 'file') return block.file.file_id !== undefined
  return block.type === 'other' && isObject(block.value) && member(block.value, 'source').type === 'file'
}

function neededByParameters({ extra }: TextCall): string[] {
  const betas = Object.entries(BETA_OF_PARAMETER).flatMap(([name, beta]) => (isSaid(extra[name]) ? [beta] : []))
  const edits = objects(member(extra, 'context_management').edits)
  if (edits.some(edit => edit.type === 'compact_20260112')) betas.push(COMPACTION)
  if (member(extra, 'output_config').task_budget != null) betas.push(TASK_BUDGETS)
  return betas
}

const isSaid = (value: unknown): boolean => value != null && value !== 'standard' && !(Array.isArray(value) && value.length === 0)

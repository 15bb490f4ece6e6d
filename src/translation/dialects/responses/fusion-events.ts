import { isObject, type Json } from '../../../base/json.ts'
import type { ToolProgress } from '../../../language/part.ts'
import type { ItemEvent, ItemPlace } from './events.ts'

/** Whether an item is a use of the tool that asks a panel, under any prefix. */
export const isFusion = ({ type }: Json): boolean =>
  typeof type === 'string' && type.endsWith(':fusion')

/** Renders the event with which a panel is asked (wire reference D.5). */
export const renderFusionBirth = (place: ItemPlace): ItemEvent => ({
  type: 'response.fusion_call.in_progress',
  ...place,
})

/** Renders what the panel does while it is asked. */
export function renderFusionProgress(
  place: ItemPlace,
  progress: Exclude<ToolProgress, { type: 'text' }>,
): ItemEvent {
  const { model } = progress
  switch (progress.type) {
    case 'panel-start':
      return { type: 'response.fusion_call.panel.added', ...place, model }
    case 'panel-text':
      return { type: 'response.fusion_call.panel.delta', ...place, model, delta: progress.text }
    case 'panel-reasoning':
      return {
        ...{ type: 'response.fusion_call.panel.reasoning.delta', ...place, model },
        delta: progress.text,
      }
    case 'panel-end':
      return renderAnswered(place, model, progress.text)
    case 'panel-failure':
      return renderFailed(place, model, progress.error, progress.status ?? undefined)
    case 'analysis-start':
      return {
        ...{ type: 'response.fusion_call.analysis.in_progress', ...place },
        // The second is the older name of the first.
        ...{ analyst_model: model, judge_model: model },
      }
  }
}

/**
 * Renders what each model of the panel answered, unless that was shown before, what the judge
 * found, and the end.
 */
export function renderFusionEnd(place: ItemPlace, item: Json, isShown: boolean): ItemEvent[] {
  const { responses, failed_models, analysis } = item
  return [
    ...(isShown ? [] : listObjects(responses).flatMap(one => renderAnswer(place, one))),
    ...(isShown ? [] : listObjects(failed_models).flatMap(one => renderFailure(place, one))),
    ...(isObject(analysis)
      ? [{ type: 'response.fusion_call.analysis.completed', ...place, analysis }]
      : []),
    { type: 'response.fusion_call.completed', ...place },
  ]
}

const renderAnswer = (place: ItemPlace, { model, content }: Json): ItemEvent[] => [
  { type: 'response.fusion_call.panel.added', ...place, model },
  { type: 'response.fusion_call.panel.delta', ...place, model, delta: content },
  renderAnswered(place, model, content),
]

const renderAnswered = (place: ItemPlace, model: unknown, content: unknown): ItemEvent => ({
  ...{ type: 'response.fusion_call.panel.completed', ...place, model, content },
})

/** The status of a model that failed without one. */
const NO_STATUS = 502

const renderFailure = (place: ItemPlace, { model, error, status_code }: Json): ItemEvent[] => [
  { type: 'response.fusion_call.panel.added', ...place, model },
  renderFailed(place, model, error, status_code),
]

const renderFailed = (
  place: ItemPlace,
  model: unknown,
  error: unknown,
  status_code: unknown = NO_STATUS,
): ItemEvent => ({
  ...{ type: 'response.fusion_call.panel.failed', ...place, model, error, status_code },
})

const listObjects = (value: unknown): Json[] =>
  Array.isArray(value) ? value.filter(one => isObject(one)) : []

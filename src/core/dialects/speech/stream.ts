import { countInputTokens, countOutputTokens, type Receipt } from '../../language/usage.ts'
import type { AnswerPart } from '../../language/work.ts'
import type { Streaming } from '../dialect.ts'
import { renderErrorEvent, renderEvent, writeEvents } from '../events.ts'

/** How sounds come as events, as OpenAI has it: pieces in base64, and the usage at the end. */
export const speechStreaming: Streaming<'speech', unknown> = {
  renderKeepAlive: () => ': keep-alive\n\n',
  streamEvents: answer =>
    writeEvents(answer, parts => parts.map(part => writePart(answer.id, part)).join('')),
  renderFailure: ({ id }, error) => renderErrorEvent(id, error),
}

function writePart(id: string, part: AnswerPart<'speech'>): string {
  switch (part.type) {
    case 'sound':
      return renderEvent({
        type: 'speech.audio.delta',
        audio: Buffer.from(part.bytes).toString('base64'),
      })
    case 'error':
      return renderErrorEvent(id, part.error)
    case 'receipt':
      return renderEvent({ type: 'speech.audio.done', usage: renderUsage(part.receipt) })
    default:
      return ''
  }
}

function renderUsage({ usage }: Receipt) {
  const [input_tokens, output_tokens] = [countInputTokens(usage), countOutputTokens(usage)]
  return { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens }
}

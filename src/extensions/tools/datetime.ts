import { Type } from '@sinclair/typebox'
import { invalid } from '../../base/errors.ts'
import { type Json, readString } from '../../base/json.ts'
import { closed, Name, optional } from '../../base/schema-builders.ts'
import type { ServerTool, ToolInvocation, ToolResult } from '../server-tool.ts'
import type { ExtensionWorld } from '../world.ts'

/** The options of the tool: the zone that a model gets that names none. */
interface DatetimeOptions {
  timezone: string
}

/** Tells the date and the time (wire reference D.6). */
export const datetime: ServerTool<DatetimeOptions> = {
  name: 'datetime',
  schema: Type.Object({ timezone: optional(Name) }, closed),
  readOptions: ({ timezone }, path) => ({
    timezone: timezone == null ? 'UTC' : readZone(timezone, `${path}.timezone`),
  }),
  findObstacle: () => null,
  listFunctions: (_, { options: { timezone } }) => [
    {
      name: 'datetime',
      description: 'Returns the current date and time, with the day of the week.',
      parameters: {
        type: 'object',
        properties: {
          timezone: {
            type: 'string',
            description: `An IANA time zone, such as Europe/Berlin. ${timezone} if omitted.`,
          },
        },
        additionalProperties: false,
      },
    },
  ],
  describeUse: ({ clock }, invocation) => tellTime(clock.now(), findZone(invocation) ?? 'UTC'),
  run: async (world, invocation) => runDatetime(world, invocation),
}

function runDatetime(
  { clock }: ExtensionWorld,
  invocation: ToolInvocation<DatetimeOptions>,
): ToolResult {
  const zone = findZone(invocation)
  if (zone === null)
    return { text: 'There is no such time zone. Use an IANA name, as Asia/Tokyo.', isError: true }
  const now = clock.now()
  const item = tellTime(now, zone)
  const weekday = getFormats(zone)?.weekday.format(now)
  return { text: JSON.stringify({ ...item, weekday }), isError: false, item }
}

/** Returns the zone that the model asks for, or else the call's; null if it does not exist. */
function findZone({ input, options }: ToolInvocation<DatetimeOptions>): string | null {
  const asked = input.timezone ?? options.timezone
  return typeof asked === 'string' && getFormats(asked) ? asked : null
}

const tellTime = (now: Date, timezone: string): Json => ({
  datetime: renderInZone(now, timezone),
  timezone,
})

/** Renders a moment in ISO 8601 with the offset of the zone. */
function renderInZone(now: Date, timezone: string): string {
  const formats = getFormats(timezone)
  if (!formats) return now.toISOString()
  const parts = formats.offset.formatToParts(now)
  const name = parts.find(({ type }) => type === 'timeZoneName')?.value ?? ''
  const offset = name.replace(/^(GMT|UTC)/, '') || '+00:00'
  return `${formats.local.format(now).replace(' ', 'T')}${offset}`
}

function readZone(value: unknown, path: string): string {
  const zone = readString(value)
  if (zone !== null && getFormats(zone)) return zone
  throw invalid(`${path}: expected an IANA time zone, such as Europe/Berlin`, path)
}

/** How times of one zone are written. */
interface ZoneFormats {
  local: Intl.DateTimeFormat
  offset: Intl.DateTimeFormat
  weekday: Intl.DateTimeFormat
}

/** Making a format takes a thousand times as long as using it. */
const formatsByZone = new Map<string, ZoneFormats>()

/** There are about as many zones; each has many spellings. */
const MAX_ZONES = 600

/** Returns the formats of a zone; undefined if it does not exist. */
function getFormats(zone: string): ZoneFormats | undefined {
  const known = formatsByZone.get(zone)
  if (known) return known
  const made = createFormats(zone)
  if (made && formatsByZone.size < MAX_ZONES) formatsByZone.set(zone, made)
  return made
}

function createFormats(timeZone: string): ZoneFormats | undefined {
  try {
    return {
      // Sweden writes dates as ISO 8601 does.
      local: new Intl.DateTimeFormat('sv-SE', {
        ...{ timeZone, year: 'numeric', month: '2-digit', day: '2-digit' },
        ...{ hour: '2-digit', minute: '2-digit', second: '2-digit' },
      }),
      offset: new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'longOffset' }),
      weekday: new Intl.DateTimeFormat('en', { weekday: 'long', timeZone }),
    }
  } catch {
    return undefined
  }
}

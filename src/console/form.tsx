/** @jsxImportSource preact */
import { useId, useState } from 'preact/hooks'
import type { Schema } from './api.ts'
import { Problem } from './parts.tsx'

/** How a field is entered, after its schema. */
type Kind = 'choice' | 'number' | 'text' | 'lines' | 'json' | 'secret'

/** A schema without what allows null: a field that is left empty is null. */
function bare(schema: Schema): Schema {
  const some = schema.anyOf?.filter(({ type }) => type !== 'null')
  return some?.length === 1 ? { ...schema, ...bare(some[0] as Schema) } : schema
}

const isNullable = ({ type, anyOf }: Schema): boolean =>
  (Array.isArray(type) && type.includes('null')) || (anyOf?.some(isNull) ?? false)
const isNull = ({ type }: Schema) => type === 'null'

function listChoices(schema: Schema): unknown[] | undefined {
  if (schema.type === 'boolean') return [true, false]
  if (schema.enum) return schema.enum
  const constants = schema.anyOf?.filter(one => one.const !== undefined)
  return constants && constants.length > 0 && constants.length === schema.anyOf?.length
    ? constants.map(one => one.const)
    : undefined
}

/** Names that hold secrets, which are not shown while they are entered. */
const SECRETS = new Set(['key', 'secret', 'password', 'token'])

function findKind(name: string, schema: Schema): Kind {
  if (listChoices(schema)) return 'choice'
  const { type } = schema
  if (type === 'number' || type === 'integer') return 'number'
  const items = bare(schema.items ?? {})
  if (type === 'array' && (items.type === 'string' || listChoices(items))) return 'lines'
  if (type === 'string') return SECRETS.has(name) ? 'secret' : 'text'
  return 'json'
}

/** Renders a value of the API as what stands in its field. */
function toEntry(kind: Kind, value: unknown): string {
  if (value === undefined || value === null) return ''
  if (kind === 'lines' && Array.isArray(value)) return value.join('\n')
  return kind === 'json' ? JSON.stringify(value, null, 2) : String(value)
}

/** Reads what stands in a field. Throws where it is not JSON, or no number. */
function fromEntry(name: string, kind: Kind, schema: Schema, entry: string): unknown {
  if (entry.trim() === '') return null
  if (kind === 'choice')
    return listChoices(schema)?.find(choice => String(choice) === entry) ?? entry
  if (kind === 'lines') return entry.split('\n').flatMap(line => line.trim() || [])
  if (kind === 'number') {
    const number = Number(entry)
    if (Number.isNaN(number)) throw new Error(`${name}: expected a number`)
    return number
  }
  if (kind !== 'json') return entry
  try {
    return JSON.parse(entry)
  } catch {
    throw new Error(`${name}: expected JSON`)
  }
}

/** A label of a field: `limit_reset` is "Limit reset". */
export const toLabel = (name: string): string => {
  const words = name.split('_').map(word => (SHORT.has(word) ? word.toUpperCase() : word))
  const text = words.join(' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}

const SHORT = new Set(['id', 'api', 'url', 'byok', 'mcp', 'usd', 'csv', 'ip', 'zdr'])

interface FormProps {
  schema: Schema
  /** What the thing is now; undefined for a new one. */
  now?: Record<string, unknown> | undefined
  example?: Record<string, unknown> | undefined
  action: string
  /** Gets the fields that were filled in, or those that were changed. */
  onSubmit: (body: Record<string, unknown>) => Promise<void>
}

/**
 * A form for the body of an operation: the fields, their limits and their help are its schema's, and
 * what is wrong is said in the API's words. A new thing leaves out what is left empty; a change has
 * what was changed.
 */
export function Form({ schema, now, example, action, onSubmit }: FormProps) {
  const fields = Object.entries(schema.properties ?? {}).map(([name, given]) => {
    const own = bare(given)
    return { name, given, schema: own, kind: findKind(name, own) }
  })
  const required = new Set(schema.required ?? [])
  fields.sort((a, b) => Number(required.has(b.name)) - Number(required.has(a.name)))
  const before = Object.fromEntries(
    fields.map(({ name, kind }) => [name, toEntry(kind, now?.[name])]),
  )
  const [entries, setEntries] = useState<Record<string, string>>(before)
  const [error, setError] = useState<Error | null>(null)
  const [isBusy, setBusy] = useState(false)
  const id = useId()

  const submit = async () => {
    const body: Record<string, unknown> = {}
    for (const { name, kind, schema: own, given } of fields) {
      const entry = entries[name] ?? ''
      if (entry === (before[name] ?? '')) continue
      const value = fromEntry(name, kind, own, entry)
      if (value === null && !now) continue
      if (value === null && !isNullable(given))
        throw new Error(`${name}: expected a value, as it cannot be taken away`)
      body[name] = value
    }
    await onSubmit(body)
  }

  return (
    <form
      onSubmit={event => {
        event.preventDefault()
        setBusy(true)
        setError(null)
        submit()
          .catch(setError)
          .finally(() => setBusy(false))
      }}
    >
      {fields.map(field => (
        <Field
          key={field.name}
          {...field}
          id={`${id}-${field.name}`}
          isRequired={required.has(field.name) && !now}
          isWrong={error?.message.startsWith(`${field.name}:`) ?? false}
          hint={toEntry(field.kind, example?.[field.name])}
          entry={entries[field.name] ?? ''}
          onEntry={entry => setEntries({ ...entries, [field.name]: entry })}
        />
      ))}
      <Problem error={error} />
      <div class="actions">
        <button type="submit" class="primary" disabled={isBusy}>
          {isBusy ? 'Sending …' : action}
        </button>
      </div>
    </form>
  )
}

interface FieldProps {
  id: string
  name: string
  schema: Schema
  kind: Kind
  isRequired: boolean
  isWrong: boolean
  hint: string
  entry: string
  onEntry: (entry: string) => void
}

function Field(props: FieldProps) {
  const { id, name, schema, isRequired } = props
  const help = [schema.description, describeBounds(schema)].filter(Boolean).join('. ')
  return (
    <div class="field">
      <label for={id}>
        {toLabel(name)}
        {isRequired ? <span class="quiet"> (required)</span> : null}
      </label>
      <Entry {...props} help={help === '' ? undefined : `${id}-help`} />
      {help === '' ? null : (
        <small id={`${id}-help`} class="quiet">
          {help}
        </small>
      )}
    </div>
  )
}

function Entry({
  id,
  schema,
  kind,
  isRequired,
  isWrong,
  hint,
  entry,
  onEntry,
  help,
}: FieldProps & { help: string | undefined }) {
  const common = {
    id,
    required: isRequired,
    'aria-invalid': isWrong,
    'aria-describedby': help,
  }
  if (kind === 'choice')
    return (
      <select {...common} value={entry} onChange={event => onEntry(event.currentTarget.value)}>
        <option value="">—</option>
        {listChoices(schema)?.map(choice => (
          <option key={String(choice)} value={String(choice)}>
            {choice === true ? 'yes' : choice === false ? 'no' : String(choice)}
          </option>
        ))}
      </select>
    )
  if (kind === 'lines' || kind === 'json')
    return (
      <textarea
        {...common}
        rows={Math.min(12, Math.max(2, entry.split('\n').length))}
        placeholder={hint || (kind === 'lines' ? 'one on each line' : 'JSON')}
        spellcheck={false}
        value={entry}
        onInput={event => onEntry(event.currentTarget.value)}
      />
    )
  const line = {
    ...common,
    autocomplete: 'off' as const,
    maxLength: schema.maxLength,
    value: entry,
    onInput: (event: { currentTarget: { value: string } }) => onEntry(event.currentTarget.value),
  }
  return kind === 'secret' ? (
    <input {...line} type="password" />
  ) : (
    <input
      {...line}
      type="text"
      inputMode={kind === 'number' ? 'decimal' : 'text'}
      placeholder={hint}
    />
  )
}

function describeBounds({ minimum, maximum, format, title, items }: Schema): string {
  const bounds = [
    minimum === undefined ? '' : `from ${minimum.toLocaleString('en')}`,
    maximum === undefined ? '' : `to ${maximum.toLocaleString('en')}`,
  ]
  const form = format === 'utc-time' ? 'As 2030-01-31T00:00:00Z' : (title ?? '')
  const some = listChoices(bare(items ?? {}))?.join(', ')
  const known = some ? `Known: ${some}` : ''
  return [bounds.filter(Boolean).join(' '), form, known].filter(Boolean).join('. ')
}

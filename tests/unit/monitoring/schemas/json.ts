// What a type looks like as JSON: enumerations are their values, dates and the like do not occur.
type Value<T> = T extends string ? `${T}` : T extends number ? (`${T}` extends `${infer N extends number}` ? N : number) : T;

export type Json<T> = T extends string | number | boolean | null | undefined
  ? Value<T>
  : T extends readonly (infer Item)[]
    ? Json<Item>[]
    : T extends object
      ? { [Key in keyof T]: Json<T[Key]> }
      : T;

// What Grafana's own package says of a panel, with options, fields and queries of its kind in place of "anything".
export type PanelOf<Panel, Options, Field, Query> = Omit<Panel, "options" | "fieldConfig" | "targets"> & {
  options: Options;
  fieldConfig: { defaults: FieldOf<Panel, Field>; overrides: { matcher: { id: string; options?: unknown }; properties: { id: string; value?: unknown }[] }[] };
  targets: Query[];
};

type FieldOf<Panel, Field> = Panel extends { fieldConfig?: { defaults: infer Defaults } } ? Omit<Defaults, "custom"> & { custom?: Field } : never;

// Queries to Prometheus have no type in the package; these are the fields that Grafana's documentation names.
export interface PrometheusQuery {
  refId: string;
  datasource: { type: "prometheus"; uid: string };
  expr: string;
  legendFormat: string;
  instant: boolean;
  range: boolean;
  format: "time_series" | "table" | "heatmap";
  editorMode: "code";
}

// Names and values, one line each; long values can be selected and read whole.
export function Pairs({ pairs }: { pairs: readonly (readonly [string, string | null])[] }) {
  return (
    <table class="pairs">
      <tbody>
        {pairs.map(([name, value]) => (
          <tr key={name}>
            <th scope="row" title={name}>
              {name}
            </th>
            <td>
              <code>{value ?? ''}</code>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
